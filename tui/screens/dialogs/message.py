"""A dialog with a long text, e.g. a complete error."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalGroup, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.domain.core.text import plain
from tui.session import BackendError
from tui.widgets.labelled_lines import EMPTY
from tui.widgets.long_lines import LongLines

if TYPE_CHECKING:
    from tui.screens.console_app import ConsoleApp


LONGEST = 8_192
"""Maximum number of characters shown of a line. Laying out more would delay key presses."""


class MessageScreen(ModalScreen[None]):
    """A dialog with a text. Enter, esc or q closes it."""

    CSS_PATH = "message.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q", "app.pop_screen", "Back")]

    def __init__(self, title: str, text: str, *, at_end: bool = False) -> None:
        """Set the text. `at_end` shows the end of the text first."""
        super().__init__()
        self._at_end = at_end
        self._title = plain(title)
        self._text = text

    def compose(self) -> ComposeResult:
        with VerticalGroup(id="dialog"):
            yield Static(Content.styled(self._title, "bold"))
            with VerticalScroll(id="text"):
                lines = LongLines("lines")
                lines.show([(EMPTY, Content(_bounded(plain(line)))) for line in self._text.splitlines()])
                yield lines
            yield Static(Content.styled("esc back", "$text-muted"))

    def on_mount(self) -> None:
        if self._at_end:
            text = self.query_one("#text", VerticalScroll)
            self.call_after_refresh(text.scroll_end, animate=False)


def _bounded(line: str) -> str:
    return line if len(line) <= LONGEST else f"{line[:LONGEST]} … ({len(line):,} characters)"


def show_trouble(console: ConsoleApp) -> None:
    """Show every error completely, with its fix."""
    show_unread(console, console.connection.failing())


def show_unread(app: App[Any], failing: Iterable[tuple[str, BackendError]]) -> None:
    """Show each source that could not be read, with the error and its fix."""
    blocks = ["\n".join(x for x in (f"{name}: {error.message}", error.fix) if x) for name, error in failing]
    app.push_screen(MessageScreen("What could not be read", "\n\n".join(blocks)))
