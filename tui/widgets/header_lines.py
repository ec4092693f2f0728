"""The two lines above every screen: context and cost, then the content of the screen."""

from __future__ import annotations

from textual.content import Content
from textual.style import Style
from textual.widget import Widget

EMPTY = Content("")


def clickable(text: Content, action_id: str, argument: str | None = None) -> Content:
    """Make the text a link: a click runs an action of the registry."""
    rest = "" if argument is None else f", {argument!r}"
    return text.stylize(Style.from_meta({"@click": f"screen.do({action_id!r}{rest})"}))


Line = tuple[Content, Content]


def spread(left: Content, right: Content, width: int) -> Content:
    """Place `left` at the left edge and `right` at the right edge.

    If both don't fit, the right part is first cut to a third of the width, then the left part.
    """
    right = right.truncate(max(width // 3, width - left.cell_length - 1), ellipsis=True)
    room = width - right.cell_length - (1 if right else 0)
    if room < 8:
        return left.truncate(width, ellipsis=True, pad=True)
    return Content.assemble(left.truncate(room, ellipsis=True, pad=True), " " if right else "", right)


class HeaderLines(Widget):
    """Two lines, each with a left and a right part. `show` repaints only changes."""

    DEFAULT_CSS = """
    HeaderLines {
        dock: top;
        height: 2;
        padding: 0 1;
    }
    """

    # A link retains its own colour, which marks the open tab.
    auto_links = False

    def __init__(self) -> None:
        super().__init__()
        self._lines: tuple[Line, Line] = ((EMPTY, EMPTY), (EMPTY, EMPTY))

    def show(self, top: Line, second: Line) -> None:
        """Show these lines; repaint only if they differ."""
        shown = [part for line in self._lines for part in line]
        # Content compares only the text; the chosen tab differs in its style.
        if not all(part.is_same(other) for part, other in zip(shown, (*top, *second), strict=True)):
            self._lines = (top, second)
            self.refresh()

    def render(self) -> Content:
        width = self.size.width
        return Content("\n").join(spread(left, right, width) for left, right in self._lines)
