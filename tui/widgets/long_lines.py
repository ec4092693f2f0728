"""Many or very long labelled lines: only the rows in view are drawn."""

from __future__ import annotations

from rich.cells import chop_cells
from textual.content import Content
from textual.geometry import Size
from textual.strip import Strip
from textual.visual import Visual

from tui.widgets.labelled_lines import EMPTY, LabelledLines, hanging_indent

LONG = 2_000
"""Characters from which a text has no words that a reader wants whole."""


class LongLines(LabelledLines):
    """Labelled lines of which most are out of view."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.rows: list[Content] = []
        """What is shown, row by row."""

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Rows at the width that the widget is about to get."""
        self._draw(width)
        return len(self.rows)

    def render_line(self, y: int) -> Strip:
        """One row. While text is selected all are drawn: the selection counts rows."""
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
            self.rows = [row for line in self._lines for row in _rows(*line, drawn[0])]
            self.update(Content("\n").join(self.rows), layout=not width)
            self.clear_cached_dimensions()


def _rows(label: Content, words: Content, width: int) -> list[Content]:
    """The rows of a line; a very long one is cut at any character, which is much faster."""
    if width and len(words) > LONG:
        return [label, *(Content(row) for row in chop_cells(words.plain, width))][not label :]
    text = hanging_indent(label, words, width)
    rows = [part for row in text.split("\n") for part in (row.wrap(width) if width else [row]) or [EMPTY]]
    return rows or [EMPTY]
