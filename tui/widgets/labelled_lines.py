"""Lines of a label and a text. A long text is wrapped with a hanging indent."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.geometry import Size
from textual.widgets import Static

Labelled = tuple[Content, Content]
"""A label, which may be empty, and its text."""
MIN_TEXT = 12
"""Minimum width of the text in cells; a narrower text is not indented."""
EMPTY = Content("")


def hanging_indent(label: Content, words: Content, width: int) -> Content:
    """Wrap the line to `width` cells; don't wrap if the width is not known yet (0)."""
    indent = label.cell_length
    if not indent or width - indent < MIN_TEXT:
        return label + words
    first, *more = words.wrap(width - indent) or [EMPTY]
    return Content("\n").join([label + first, *(Content(" " * indent) + line for line in more)])


class LabelledLines(Static):
    """Shows labelled lines and wraps them again when the width changes."""

    def __init__(self, id: str) -> None:
        super().__init__("", id=id, markup=False)
        self._lines: list[Labelled] = []
        self._drawn: tuple[int, list[Labelled]] = (0, [])

    def show(self, lines: Sequence[Labelled]) -> None:
        """Show these lines. Without lines, the widget has the class `-empty`."""
        self._lines = list(lines)
        self.set_class(not lines, "-empty")
        self._draw()

    def on_mount(self) -> None:
        """Lay out the lines that were set before, because the parent has no height for the lines yet."""
        self.call_after_refresh(self.refresh, layout=True)

    def on_resize(self) -> None:
        """Wrap the lines to the new width."""
        self._draw()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Wrap to the coming width of the widget, so that the first frame is right."""
        self._draw(width)
        return super().get_content_height(container, viewport, width)

    def text(self, width: int) -> Content:
        """Return the lines, wrapped to `width` cells."""
        return Content("\n").join(hanging_indent(label, words, width) for label, words in self._lines)

    def _draw(self, width: int = 0) -> None:
        drawn = (width or self.content_size.width, self._lines)
        if drawn != self._drawn:
            self._drawn = drawn
            self.update(self.text(drawn[0]), layout=not width)
            self.clear_cached_dimensions()
