"""A line to type a filter in: it applies with every key and is hidden when it is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import HorizontalGroup
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from tui.domain.text import plain


class FilterBar(HorizontalGroup):
    """Hidden until `open`. Posts `Changed` with every key, `Closed` on enter (kept) and esc (cleared)."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave(False)", "Clear"),
        Binding("enter,down", "leave(True)", "Keep"),
    ]
    DEFAULT_CSS = """
    FilterBar {
        display: none;
        height: 1;
        padding: 0 1;
        background: $surface;
        #slash { width: 2; color: $accent; text-style: bold; }
        Input { width: 1fr; background: $surface; border: none; padding: 0; height: 1; }
        #problem { width: auto; max-width: 60%; color: $text-error; }
    }
    """

    @dataclass
    class Changed(Message):
        """The text has changed."""

        text: str

    @dataclass
    class Closed(Message):
        """The line was closed."""

        text: str

    def __init__(self, placeholder: str = "") -> None:
        super().__init__()
        self._placeholder = placeholder
        self._back_to: Widget | None = None

    def compose(self) -> ComposeResult:
        yield Static("/ ", id="slash", markup=False)
        line = Input(placeholder=self._placeholder, compact=True)
        line.cursor_blink = False
        yield line
        yield Static("", id="problem", markup=False)

    @property
    def text(self) -> str:
        """What is typed."""
        return self.query_one(Input).value

    def open(self) -> None:
        """Show the line and type into it."""
        self.display = True
        self._back_to = self.screen.focused
        # At once, not by a message: the next key may already be waiting.
        self.screen.set_focus(self.query_one(Input))

    def clear(self) -> None:
        """Empty the line and hide it."""
        self.query_one(Input).value = ""
        self.display = False

    def show_problem(self, problem: str) -> None:
        """Show what is wrong with the text; "" clears it."""
        self.query_one("#problem", Static).update(Content(plain(problem)))

    def action_leave(self, keep: bool) -> None:
        """Close the line, with the filter kept or cleared."""
        if not keep:
            self.query_one(Input).value = ""
        self.screen.set_focus(self._back_to)
        self.display = False
        self.post_message(self.Closed(self.text))

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Changed(event.value))

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_leave(True)
