"""Finds the block of rows that has moved up or down, as a log does when a line is appended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

EDGE = 2
"""Number of cells at the right edge that need not match, because the scroll bar is there."""
MIN_ROWS = 3
MIN_CHANGED = 2


class Move(NamedTuple):
    """A move of rows `top` to `bottom` (inclusive) by `by` rows, up, or down if `by` is negative."""

    top: int
    bottom: int
    by: int


class RowText(NamedTuple):
    """A row reduced to the text that identifies it."""

    text: str
    blank: bool


def row_text(chars: Sequence[str | None]) -> RowText:
    """Return the text of a row without its right edge."""
    text = "".join(filter(None, chars[:-EDGE]))
    return RowText(text, not text.strip())


def find_move(
    shown: Sequence[Sequence[str | None]], target: Mapping[int, Sequence[str | None]]
) -> Move | None:
    """Return the move that saves most bytes, or `None` if no move saves any.

    `target` holds the rows that differ from `shown`. Only moves of an entire block are considered.
    """
    if len(target) < MIN_ROWS:
        return None
    texts = {y: row_text(chars) for y, chars in target.items()}
    low, high = min(target), max(target)
    places: dict[str, list[int]] = {}
    old: dict[int, RowText] = {}
    for y in range(low, high + 1):
        old[y] = row_text(shown[y]) if shown[y][0] is not None else RowText("\0", blank=True)
        if not old[y].blank:
            places.setdefault(old[y].text, []).append(y)
    votes = Counter(
        at - y
        for y, row in texts.items()
        if not row.blank and len(places.get(row.text, ())) == 1
        for at in places[row.text]
        if at != y
    )
    if not votes:
        return None
    by, agreed = votes.most_common(1)[0]
    if agreed < MIN_CHANGED:
        return None
    return _longest(old, texts, low, high, by)


def _longest(
    old: Mapping[int, RowText], texts: Mapping[int, RowText], low: int, high: int, by: int
) -> Move | None:
    """Return the longest run of rows that were shown `by` rows away, with their original rows."""
    best: tuple[int, int, int] = (0, 0, 0)
    start: int | None = None
    gain = 0
    for y in range(low, high + 2):
        source = y + by
        same = y <= high and source in old and texts.get(y, old[y]).text == old[source].text
        if same:
            if start is None:
                start, gain = y, 0
            row = texts.get(y)
            gain += row is not None and not row.blank
        elif start is not None:
            best = max(best, (gain, start, y - 1))
            start = None
    gain, first, last = best
    # The freed rows are rewritten, including rows that would not have changed.
    spoiled = sum(
        y not in texts for y in (range(last + 1, last + by + 1) if by > 0 else range(first + by, first))
    )
    if gain < MIN_CHANGED or gain <= spoiled:
        return None
    return Move(min(first, first + by), max(last, last + by), by)
