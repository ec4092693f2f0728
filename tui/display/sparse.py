"""Writes many small changes in few styles, such as a heat map's cells, style by style to save bytes.

A change of style takes up to twenty bytes, a move to another cell five. Therefore each style is set once, and
the pen visits all its cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tui.display.cells import CellStyles, Chars, is_sure

MIN_IN_ROW = 4
MIN_PIECES = 24
"""Minimum number of pieces in one row, and in all rows, for which writing by style saves bytes."""
MAX_STYLES = 0.5
"""Maximum ratio of styles to pieces at which writing by style saves bytes."""


class Piece(NamedTuple):
    """Neighbouring changed cells in one style. Pieces sort by style, then position."""

    style: str
    y: int
    x: int
    text: str


def pieces(
    y: int, shown: tuple[Chars, CellStyles], target: tuple[Chars, CellStyles], cells: Sequence[int]
) -> list[Piece] | None:
    """Return the pieces of a row to write, where `cells` differ; `None` if a cell's width is uncertain."""
    old_chars, _ = shown
    chars, styles = target
    pieces: list[Piece] = []
    end, style, text = -1, "", ""
    for x in cells:
        char, before, now = chars[x], old_chars[x], styles[x]
        if not char or not before or not (is_sure(char) and is_sure(before)) or _is_wide(chars, old_chars, x):
            return None
        if x == end and now == style:
            text += char
        else:
            if text:
                pieces.append(Piece(style, y, end - len(text), text))
            style, text = now, char
        end = x + 1
    if text:
        pieces.append(Piece(style, y, end - len(text), text))
    return pieces


def _is_wide(chars: Chars, old_chars: Chars, x: int) -> bool:
    return x + 1 < len(chars) and (chars[x + 1] == "" or old_chars[x + 1] == "")


def by_style(rows: Mapping[int, list[Piece] | None]) -> list[Piece]:
    """Return the pieces to write style by style; empty if that saves nothing."""
    pieces = [piece for row in rows.values() if row is not None and len(row) >= MIN_IN_ROW for piece in row]
    if len(pieces) < MIN_PIECES or len({piece.style for piece in pieces}) > MAX_STYLES * len(pieces):
        return []
    return sorted(pieces)
