"""An input line for a filter, which applies with every key. The line is hidden when it is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import HorizontalGroup
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from tui.domain.core.text import plain

Completions = Callable[[str], tuple[str, Sequence[str]]]
"""A function that returns the text before its last part, and the words that complete that part."""


class FilterBar(HorizontalGroup):
    """Hidden until `open`. Posts `Changed` with every key, `Closed` on enter (filter retained) and esc
    (cleared).

    With `completions`, the matching words are shown beside the text. `tab` inserts the first word, and
    pressed again the next word.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave(False)", "Clear"),
        Binding("enter,down", "leave(True)", "Keep"),
        Binding("tab", "complete", "Complete"),
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

    def __init__(self, placeholder: str = "", completions: Completions | None = None) -> None:
        super().__init__()
        self._placeholder = placeholder
        self._completions = completions
        self._choices: tuple[str, Sequence[str]] = ("", ())
        """The text before the completion of `tab`, and the offered words."""
        self._completed = ""
        self._problem = ""
        self._back_to: Widget | None = None

    def compose(self) -> ComposeResult:
        yield Static("/ ", id="slash", markup=False)
        line = Input(placeholder=self._placeholder, compact=True)
        line.cursor_blink = False
        yield line
        yield Static("", id="problem", markup=False)

    @property
    def text(self) -> str:
        """The typed text."""
        return self.query_one(Input).value

    def open(self) -> None:
        """Show the line and type into it."""
        self.display = True
        self._back_to = self.screen.focused
        # Set the focus at once instead of by a message, because the next key may already be waiting.
        self.screen.set_focus(self.query_one(Input))

    def clear(self) -> None:
        """Empty the line and hide it."""
        self.query_one(Input).value = ""
        self.display = False

    def show_problem(self, problem: str) -> None:
        """Show a problem with the text; "" clears it."""
        self._problem = problem
        self._show_side()

    def set_text(self, text: str) -> None:
        """Replace the text, e.g. by a saved filter."""
        self.query_one(Input).value = text

    def _show_side(self) -> None:
        """Show the problem, or the completions of `tab`."""
        side = Content(plain(self._problem))
        words = self._choices[1]
        if not self._problem and words:
            offered = [
                Content.styled(plain(word), "$accent" if at == 0 else "$text-muted")
                for at, word in enumerate(words)
            ]
            side = Content.assemble(("tab ", "$text-muted"), Content("  ").join(offered))
        self.query_one("#problem", Static).update(side)

    def action_complete(self) -> None:
        """Complete the first matching word; pressed again, the next word."""
        if self._completions is None:
            raise SkipAction
        line = self.query_one(Input)
        head, words = self._choices
        if not words:
            return
        if self._completed and line.value == self._completed:
            words = (*words[1:], words[0])
            self._choices = head, words
        self._completed = head + words[0]
        line.value = self._completed
        line.cursor_position = len(self._completed)
        self._show_side()

    def action_leave(self, keep: bool) -> None:
        """Close the line, and retain or clear the filter."""
        if not keep:
            self.query_one(Input).value = ""
        self.screen.set_focus(self._back_to)
        self.display = False
        self.post_message(self.Closed(self.text))

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if self._completions is not None and event.value != self._completed:
            self._completed = ""
            self._choices = self._completions(event.value)
            self._show_side()
        self.post_message(self.Changed(event.value))

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_leave(True)
