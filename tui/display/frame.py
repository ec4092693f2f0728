"""Converts a compositor update to rows of the screen."""

from __future__ import annotations

from rich.color import ColorSystem
from textual._compositor import ChopsUpdate, LayoutUpdate

from tui.display.cells import NotRepresentable, strip_cells
from tui.display.screen_buffer import BufferRow, ScreenBuffer


def frame_rows(
    update: LayoutUpdate | ChopsUpdate, buffer: ScreenBuffer, system: ColorSystem
) -> dict[int, BufferRow]:
    """Return the new rows of an update by their row number.

    Raises:
        NotRepresentable: a strip can't be represented in cells or lies outside the buffer.
    """
    rows: dict[int, BufferRow] = {}
    if isinstance(update, LayoutUpdate):
        for y, strips in enumerate(update.strips, update.region.y):
            chars, styles = strip_cells(strips, system)
            _row(rows, buffer, y).put(update.region.x, chars, styles)
        return rows
    for y, left, right in update.spans:
        for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            # Select and crop as Textual's `ChopsUpdate.render_segments` does.
            if strip is None or x > right or end <= left:
                continue
            whole = right > x >= left and end <= right
            chars, styles = strip_cells([strip if whole else strip.crop(0, min(end, right) - x)], system)
            _row(rows, buffer, y).put(x, chars, styles)
    return rows


def _row(rows: dict[int, BufferRow], buffer: ScreenBuffer, y: int) -> BufferRow:
    if not 0 <= y < buffer.height:
        raise NotRepresentable("a row outside the screen")
    row = rows.get(y)
    if row is None:
        row = rows[y] = buffer.rows[y].copy()
    return row
