"""Paint the cells of fields: colours, sparklines and glyphs for plain data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from textual.content import Content

from tui.domain.core.text import plain
from tui.domain.fields.cell import Cell, Tone
from tui.domain.fields.field import Field
from tui.widgets.plot.sparkline import sparkline
from tui.widgets.table.table import Cells

R = TypeVar("R")
STYLES = {
    Tone.NORMAL: "",
    Tone.MUTED: "$text-muted",
    Tone.GOOD: "$text-success",
    Tone.DONE: "$text-primary",
    Tone.WARNING: "$text-warning",
    Tone.BAD: "$text-error",
    Tone.ACCENT: "$accent",
}


def content(cell: Cell, *, ascii_only: bool = False) -> Content:
    """Return a cell as styled text."""
    text = plain(cell.text)
    if cell.glyph:
        text = f"{cell.glyph} {text}"
    if cell.trend:
        text = sparkline(cell.trend, ascii_only=ascii_only) + text
    style = f"bold {STYLES[cell.tone]}".strip() if cell.strong else STYLES[cell.tone]
    if not cell.more:
        return Content.styled(text, style)
    return Content.assemble((text, style), *(content(part, ascii_only=ascii_only) for part in cell.more))


def row_cells(fields: Iterable[Field[R]], row: R, *, ascii_only: bool = False) -> Cells:
    """Return the painted cells of one row, by the columns' keys."""
    return {
        field.key: content(field.cell(row), ascii_only=ascii_only)
        for field in fields
        if field.cell is not None
    }
