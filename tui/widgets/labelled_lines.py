"""Lines of a label and a text; a long text is wrapped with a hanging indent."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import chop_cells
from textual.content import Content
from textual.geometry import Size
from textual.strip import Strip
from textual.visual import Visual
from textual.widgets import Static

Labelled = tuple[Content, Content]
"""A label, which may be empty, and its text."""
MIN_TEXT = 12
"""Cells of text; with less room the text is not indented."""
LONG = 2_000
"""Characters from which a text has no words that a reader wants whole."""
EMPTY = Content("")


def hanging_indent(label: Content, words: Content, width: int) -> list[Content]:
    """The rows of the line, `width` cells wide; one row if the width is not known yet (0)."""
    indent = label.cell_length
    if not width:
        return [label + words]
    if not indent or width - indent < MIN_TEXT:
        return _wrapped(label + words, width)
    first, *more = _wrapped(words, width - indent)
    return [label + first, *(Content(" " * indent) + line for line in more)]


def _wrapped(words: Content, width: int) -> list[Content]:
    """The text in rows of whole words; a very long one is cut at any character, which is much faster."""
    if len(words) > LONG:
        return [Content(row) for row in chop_cells(words.plain, width)]
    return words.wrap(width) or [EMPTY]


class LabelledLines(Static):
    """Shows labelled lines and wraps them again when the width changes; only rows in view are drawn."""

    def __init__(self, id: str) -> None:
        super().__init__("", id=id, markup=False)
        self._lines: list[Labelled] = []
        self._drawn: tuple[int, list[Labelled]] = (0, [])
        self._rows: list[Content] = []

    def show(self, lines: Sequence[Labelled]) -> None:
        """Show these lines."""
        self._lines = list(lines)
        self._draw()

    def on_mount(self) -> None:
        """Lay out the lines that were set before: Textual has not told the parent their height yet."""
        self.call_after_refresh(self.refresh, layout=True)

    def on_resize(self) -> None:
        """Wrap the lines to the new width."""
        self._draw()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Wrap to the width that the widget is about to get, so that the first frame is right."""
        self._draw(width)
        return len(self._rows)

    def render_line(self, y: int) -> Strip:
        """One row. While text is selected all are drawn: the selection counts rows."""
        if self.text_selection is not None:
            return super().render_line(y)
        width = self.size.width
        row = self._rows[y] if y < len(self._rows) else EMPTY
        strips = Visual.to_strips(self, row, width, 1, self.visual_style)
        return strips[0] if strips else Strip.blank(width, self.visual_style.rich_style)

    def _draw(self, width: int = 0) -> None:
        drawn = (width or self.content_size.width, self._lines)
        if drawn != self._drawn:
            self._drawn = drawn
            self._rows = [row for line in self._lines for row in hanging_indent(*line, drawn[0])]
            self.update(Content("\n").join(self._rows), layout=not width)
            self.clear_cached_dimensions()
