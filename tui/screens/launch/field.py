"""One value of a launch: an input line, with a list of choices if the values are known."""

from __future__ import annotations

from dataclasses import dataclass

from textual.app import ComposeResult
from textual.containers import HorizontalGroup, VerticalGroup
from textual.content import Content
from textual.events import Key
from textual.message import Message
from textual.widgets import Input, Static

from tui.actions.registry import bindings
from tui.domain.core.text import plain
from tui.domain.form.choices import Offer
from tui.domain.vertex.field_check import MOST_NAMED
from tui.screens.dialogs.pick import PickScreen, value_options


class ValueInput(Input):
    """A text input. `enter` goes to the next value."""

    SCOPE = "launchvalue"
    BINDINGS = bindings(SCOPE)

    @dataclass
    class Left(Message):
        """Move the focus by `move` values."""

        move: int

    def __init__(self, value: str, *, secret: bool = False) -> None:
        super().__init__(value, compact=True, password=secret)
        self.cursor_blink = False

    def action_go_on(self) -> None:
        """Go to the next value."""
        self.post_message(self.Left(1))

    def action_go_back(self) -> None:
        """Go to the previous value."""
        self.post_message(self.Left(-1))


class ChoiceInput(ValueInput):
    """A value with choices: `enter` and letters open the list; other text can only be pasted."""

    SCOPE = "launchchoice"
    BINDINGS = bindings(SCOPE)

    @dataclass
    class Asked(Message):
        """Open the list of this line, filtered by `typed`."""

        line: ChoiceInput
        typed: str

    def action_choose(self) -> None:
        """Open the list."""
        self.post_message(self.Asked(self, ""))

    async def _on_key(self, event: Key) -> None:
        if event.is_printable and event.character and not event.character.isspace():
            event.stop()
            event.prevent_default()
            self.post_message(self.Asked(self, event.character))
        elif not event.is_printable:
            await super()._on_key(event)


class LaunchField(VerticalGroup):
    """A name, a value, and its explanation or problem.

    The explanation is beside the value, or below it on a narrow screen while the value has the focus.
    """

    def __init__(
        self, name: str, value: str, hint: str, offer: Offer | None = None, *, secret: bool = False
    ) -> None:
        super().__init__()
        self._secret = secret
        self.field = name
        self._value = value
        self._hint = Content.styled(plain(hint), "$text-muted")
        self._offer = offer
        self.problem = ""
        """The problem with the value, as a sentence."""

    def compose(self) -> ComposeResult:
        with HorizontalGroup():
            yield Static(Content(plain(self.field)), classes="name")
            kind = ValueInput if self._offer is None else ChoiceInput
            yield kind(self._value, secret=self._secret)
            yield Static(Content.styled("▾" if self._offer else "", "$text-muted"), classes="mark")
            yield Static(self._hint, classes="hint")
        yield Static(self._hint, classes="below")

    def on_resize(self) -> None:
        """Scroll the explanation of the current value into view when it opens below the line."""
        if self.has_class("-current"):
            self.scroll_visible(animate=False)

    @property
    def line(self) -> ValueInput:
        """The line with the value."""
        return self.query_one(ValueInput)

    @property
    def value(self) -> str:
        """The typed text."""
        return self.line.value.strip()

    def show_problem(self, sentence: str) -> None:
        """Show the problem with the value; an empty sentence clears it."""
        if sentence == self.problem:
            return
        self.problem = sentence
        self.set_class(bool(sentence), "-wrong")
        text = Content.styled(f"✗ {plain(sentence)}", "$text-error") if sentence else self._hint
        for note in self.query(".hint, .below").results(Static):
            note.update(text)

    def pick(self, offer: Offer, typed: str) -> PickScreen:
        """Return the list of the choices, filtered by `typed`."""
        values = [choice.value or "none" for choice in offer.choices]
        no_match = "Nothing matches."
        if len(values) <= MOST_NAMED:
            no_match += f" The value must be one of {', '.join(values)}."
        options = value_options((choice.value, choice.help) for choice in offer.choices)
        return PickScreen(self.field, options, self.value, free=offer.free, typed=typed, no_match=no_match)
