"""Lines of a label and words: what does not fit goes on below the words, not below the label."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.geometry import Size
from textual.widgets import Static

from tui.widgets.state import glyphs

Labelled = tuple[Content, Content]
"""A label, which may be empty, and the words behind it."""
LEAST = 12
"""Cells of words below which a label is too wide to hang them on."""
EMPTY = Content("")


def hung(label: Content, words: Content, width: int) -> Content:
    """The line in `width` cells; as it is where the width is not known yet (0)."""
    indent = label.cell_length
    if not indent or width - indent < LEAST:
        return label + words
    first, *more = words.wrap(width - indent) or [EMPTY]
    return Content("\n").join([label + first, *(Content(" " * indent) + line for line in more)])


class Hanging(Static):
    """Shows such lines, drawn anew when its width changes."""

    def __init__(self, id: str) -> None:
        super().__init__("", id=id, markup=False)
        self._lines: list[Labelled] = []
        self._drawn: tuple[int, list[Labelled]] = (0, [])

    def say(self, lines: Sequence[Labelled]) -> None:
        """Show these from now on."""
        self._lines = list(lines)
        self._draw()

    def on_mount(self) -> None:
        """What was said before is laid out: until now Textual has not told those around of it."""
        self.call_after_refresh(self.refresh, layout=True)

    def on_resize(self) -> None:
        """A width is known, or another one."""
        self._draw()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Drawn for the width that it is about to get: the first picture is right already."""
        self._draw(width)
        return super().get_content_height(container, viewport, width)

    def _draw(self, width: int = 0) -> None:
        drawn = (width or self.content_size.width, self._lines)
        if drawn != self._drawn:
            self._drawn = drawn
            text = Content("\n").join(hung(label, words, drawn[0]) for label, words in self._lines)
            self.update(glyphs(text, self), layout=not width)
            self.clear_cached_dimensions()
