"""Many or very long labelled lines. Only the rows in view are drawn."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import chop_cells
from textual.content import Content
from textual.geometry import Size
from textual.strip import Strip
from textual.visual import Visual

from tui.widgets.labelled_lines import EMPTY, Labelled, LabelledLines, hanging_indent

LONG = 2_000
"""Number of characters above which a text is cut at any character instead of between words."""


WIDTHS = 2
"""Number of widths for which rows are cached: with and without a scroll bar."""


class LongLines(LabelledLines):
    """Labelled lines, usually too many to fit, of which only the rows in view are rendered."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.rows: list[Content] = []
        """The shown text, row by row."""
        self._by_width: dict[int, tuple[list[Content], Content]] = {}
        """For each width that a layout has used: the rows, and the rows joined into one text."""

    def show(self, lines: Sequence[Labelled]) -> None:
        """Show these lines."""
        self._by_width.clear()
        super().show(lines)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of rows at the coming width of the widget."""
        self._draw(width)
        return len(self.rows)

    def render_line(self, y: int) -> Strip:
        """Return one row. While text is selected all rows are drawn, because the selection counts rows."""
        if self.text_selection is not None:
            return super().render_line(y)
        width = self.size.width
        row = self.rows[y] if y < len(self.rows) else EMPTY
        strips = Visual.to_strips(self, row, width, 1, self.visual_style)
        return strips[0] if strips else Strip.blank(width, self.visual_style.rich_style)

    def _draw(self, width: int = 0) -> None:
        drawn = (width or self.content_size.width, self._lines)
        if drawn != self._drawn:
            self._drawn = drawn
            if drawn[0] not in self._by_width:
                # A layout asks with and without the scroll bar, several times; a resize has other widths.
                if len(self._by_width) >= WIDTHS:
                    self._by_width.clear()
                rows = [row for line in self._lines for row in _rows(*line, drawn[0])]
                self._by_width[drawn[0]] = rows, Content("\n").join(rows)
            self.rows, text = self._by_width[drawn[0]]
            self.update(text, layout=not width)
            self.clear_cached_dimensions()


def _rows(label: Content, words: Content, width: int) -> list[Content]:
    """Return the rows of a line. A very long line is cut at any character, which is much faster."""
    if label.cell_length + words.cell_length <= width and "\n" not in words.plain:
        return [label + words]
    if width and len(words) > LONG:
        return [label, *(Content(row) for row in chop_cells(words.plain, width))][not label :]
    text = hanging_indent(label, words, width)
    rows = [part for row in text.split("\n") for part in (row.wrap(width) if width else [row]) or [EMPTY]]
    return rows or [EMPTY]
