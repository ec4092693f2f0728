"""What the compositor wants on the screen, row by row."""

from __future__ import annotations

from rich.color import ColorSystem
from textual._compositor import ChopsUpdate, LayoutUpdate

from tui.display.cells import NotUnderstood, strip_cells
from tui.display.picture import Picture, Row


def frame_rows(update: LayoutUpdate | ChopsUpdate, picture: Picture, system: ColorSystem) -> dict[int, Row]:
    """The rows that an update touches, by their place, as they are to be.

    Raises:
        NotUnderstood: for a strip that can't be said in cells or that lies outside the picture.
    """
    rows: dict[int, Row] = {}
    if isinstance(update, LayoutUpdate):
        for y, strips in enumerate(update.strips, update.region.y):
            chars, looks = strip_cells(strips, system)
            _row(rows, picture, y).put(update.region.x, chars, looks)
        return rows
    for y, left, right in update.spans:
        for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            # As Textual's own `ChopsUpdate.render_segments` chooses and crops them.
            if strip is None or x > right or end <= left:
                continue
            whole = right > x >= left and end <= right
            chars, looks = strip_cells([strip if whole else strip.crop(0, min(end, right) - x)], system)
            _row(rows, picture, y).put(x, chars, looks)
    return rows


def _row(rows: dict[int, Row], picture: Picture, y: int) -> Row:
    if not 0 <= y < picture.height:
        raise NotUnderstood("a row outside the screen")
    row = rows.get(y)
    if row is None:
        row = rows[y] = picture.rows[y].copy()
    return row
