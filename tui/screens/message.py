"""A longer text to read, e.g. an error in full."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalGroup, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.domain.text import plain


class MessageScreen(ModalScreen[None]):
    """Any of enter, esc and q goes back."""

    CSS_PATH = "message.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q", "app.pop_screen", "Back")]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title = plain(title)
        self._text = text

    def compose(self) -> ComposeResult:
        with VerticalGroup(id="dialog"):
            yield Static(Content.styled(self._title, "bold"))
            with VerticalScroll(id="text"):
                yield Static(Content("\n").join([Content(plain(line)) for line in self._text.splitlines()]))
            yield Static(Content.styled("esc back", "$text-muted"))
