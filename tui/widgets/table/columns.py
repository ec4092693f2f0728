"""The columns of a table that fit a width, with the width and position of each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from textual.app import App

from tui.domain.fields.field import Column

GAP = 2
"""Gap between two columns, and before the first column for the mark, in cells."""

REASON = 36
"""Width of the flexible column, in cells, for which columns of at least the rank `LESS` make room."""
LESS = 8


class PlacedColumn(NamedTuple):
    """A column with its position. `x` is its first cell."""

    column: Column
    width: int
    x: int


def place(
    columns: Sequence[Column],
    natural: Mapping[str, int],
    room: int,
    folded: Iterable[str] = (),
    kept: Collection[str] = (),
) -> tuple[PlacedColumn, ...]:
    """Return the columns that fit into `room` cells, with their widths.

    `natural` holds the widest known cell of each column. The result has at least one column. Columns in
    `kept` are left out last.
    """
    away = set(folded)
    shown = [c for c in columns if c.key not in away] or list(columns[:1])
    needed = {c.key: _wanted(c, natural) if c.whole else c.min_width for c in shown}
    while sum(needed[c.key] + GAP for c in shown) > room:
        out = max(shown, key=lambda c: (bool(c.rank) and c.key not in kept, c.rank))
        if not out.rank or len(shown) == 1:
            break
        shown.remove(out)
    flexible = next((c for c in shown if c.flex), None)
    if flexible is not None:
        # A reason matters more than the columns that only wide screens show.
        reason = max(needed[flexible.key], min(_wanted(flexible, natural), REASON)) - needed[flexible.key]
        while sum(needed[c.key] + GAP for c in shown) + reason > room:
            out = max(shown, key=lambda c: (c.key not in kept, c.rank))
            if out.rank < LESS or out.key in kept:
                break
            shown.remove(out)
    widths = {c.key: needed[c.key] for c in shown}
    room_for = {c.key: _wanted(c, natural) for c in shown}
    left = room - sum(width + GAP for width in widths.values())
    # Place narrow columns first, so that a count is shown completely before a long text uses the remaining
    # width.
    for column in sorted(shown, key=lambda c: room_for[c.key] - widths[c.key]):
        more = max(0, min(left, room_for[column.key] - widths[column.key]))
        widths[column.key] += more
        left -= more
    if flexible is not None and left > 0:
        max_width = flexible.max_width or widths[flexible.key] + left
        more = max(0, min(left, max_width - widths[flexible.key]))
        widths[flexible.key] += more
        left -= more
    # Use free width before cutting.
    for column in sorted(shown, key=lambda c: natural.get(c.key, 0) - widths[c.key]):
        more = max(0, min(left, natural.get(column.key, 0) - widths[column.key]))
        widths[column.key] += more
        left -= more
    for column in shown:
        if column.ends or column.flex:
            _take_unfilled(column, shown, widths, natural)
    placed, x = [], GAP
    for column in shown:
        placed.append(PlacedColumn(column, widths[column.key], x))
        x += widths[column.key] + GAP
    return tuple(placed)


def _take_unfilled(
    column: Column, shown: Sequence[Column], widths: dict[str, int], natural: Mapping[str, int]
) -> None:
    """Give a column that cuts its cells the unused width of the other columns."""
    for other in shown:
        if other is not column:
            short = _wanted(column, natural) - widths[column.key]
            unfilled = widths[other.key] - max(natural.get(other.key, 0), len(other.title) + 1)
            more = max(0, min(short, unfilled))
            widths[column.key] += more
            widths[other.key] -= more


def _wanted(column: Column, natural: Mapping[str, int]) -> int:
    wide = max(column.min_width, natural.get(column.key, 0))
    return min(wide, column.max_width) if column.max_width else wide


_FOLDED: WeakKeyDictionary[App[object], dict[str, set[str]]] = WeakKeyDictionary()


def folded_in(app: App[object], table: str) -> set[str]:
    """Return the keys of the columns that the user has hidden in tables of this name, in this run."""
    return _FOLDED.setdefault(app, {}).setdefault(table, set())
