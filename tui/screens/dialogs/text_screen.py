"""A text that occupies the entire screen."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from tui.domain.core.text import plain
from tui.screens.frame import FrameScreen
from tui.widgets.header_lines import Line


class TextScreen(FrameScreen):
    """A scrollable text. Subclasses define title, text and line styles, and use `preview.tcss`."""

    def compose_body(self) -> Iterable[Widget]:
        with VerticalScroll(id="request"):
            yield Static("", id="text", markup=False)

    def on_mount(self) -> None:
        self.query_one("#request").focus()
        self.show()

    @property
    @abstractmethod
    def heading(self) -> str:
        """The heading in the first line, without markup."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The shown text."""

    def line(self, line: str) -> Content:
        """Return a line as styled content."""
        return Content(plain(line))

    def show(self) -> None:
        """Show the current text."""
        lines = map(self.line, self.text.splitlines())
        self.query_one("#text", Static).update(Content("\n").join(lines))
        self.refresh_frame()

    def top_line(self) -> Line:
        return Content.assemble(("vxtui", "bold $accent"), "   ", (self.heading, "bold")), Content("")

    def action_back(self) -> None:
        """Close the screen."""
        self.dismiss()
