"""Many small changes in few looks, such as the cells of a heat map: cheaper to write look by look.

A change of look takes up to twenty bytes, a step to another cell five: each look is taken on once, and the
pen goes round all cells that have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tui.display.cells import Chars, Looks, is_sure

LEAST_IN_ROW = 4
LEAST = 24
"""Pieces of one row, and of all, from which on it is worth it."""
MOST_LOOKS = 0.5
"""Looks for each piece, above which nothing is gained."""


class Piece(NamedTuple):
    """Neighbouring cells in one look that differ from what is shown. They sort by look, then place."""

    look: str
    y: int
    x: int
    text: str


def pieces(
    y: int, shown: tuple[Chars, Looks], wanted: tuple[Chars, Looks], cells: Sequence[int]
) -> list[Piece] | None:
    """What of one row has to be written, where `cells` differ.

    `None` where a cell's width is not one for sure.
    """
    old_chars, _ = shown
    chars, looks = wanted
    found: list[Piece] = []
    end, look, text = -1, "", ""
    for x in cells:
        char, before, now = chars[x], old_chars[x], looks[x]
        if not char or not before or not (is_sure(char) and is_sure(before)) or _is_wide(chars, old_chars, x):
            return None
        if x == end and now == look:
            text += char
        else:
            if text:
                found.append(Piece(look, y, end - len(text), text))
            look, text = now, char
        end = x + 1
    if text:
        found.append(Piece(look, y, end - len(text), text))
    return found


def _is_wide(chars: Chars, old_chars: Chars, x: int) -> bool:
    return x + 1 < len(chars) and (chars[x + 1] == "" or old_chars[x + 1] == "")


def by_look(rows: Mapping[int, list[Piece] | None]) -> list[Piece]:
    """The pieces of those rows that are better written look by look; empty where nothing is gained."""
    found = [piece for row in rows.values() if row is not None and len(row) >= LEAST_IN_ROW for piece in row]
    if len(found) < LEAST or len({piece.look for piece in found}) > MOST_LOOKS * len(found):
        return []
    return sorted(found)
