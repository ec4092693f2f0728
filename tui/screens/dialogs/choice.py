"""A question with a few named answers, each on a key of its own; esc answers none and changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalGroup, VerticalScroll
from textual.content import Content
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.domain.text import plain
from tui.widgets.state import glyphs

Answer = tuple[str, str, str]
"""Key, what it does, and what becomes of the rest."""


class ChoiceScreen(ModalScreen[str]):
    """Answers the key that was pressed. No answer is the default: enter does nothing, held or not.

    `reasons` are lines between the question and the answers.
    """

    CSS_PATH = "choice.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "app.pop_screen", "Back")]

    def __init__(self, question: str, answers: Sequence[Answer], reasons: Sequence[str] = ()) -> None:
        super().__init__()
        self._question = plain(question)
        self._answers = list(answers)
        self._reasons = [Content(plain(line)) for line in reasons]

    def compose(self) -> ComposeResult:
        wide = max(len(words) for _, words, _ in self._answers) + 2
        lines = [
            Content.assemble((key, "bold $accent"), f"  {words:<{wide}}", (more, "$text-muted"))
            for key, words, more in self._answers
        ]
        with VerticalGroup(id="dialog"):
            yield Static(Content(self._question), id="question")
            if self._reasons:
                with VerticalScroll(id="reasons", can_focus=False):
                    yield Static(glyphs(Content("\n").join(self._reasons), self))
            yield Static(glyphs(Content("\n").join(lines), self), id="details")
            yield Static(Content.styled("esc back", "$text-muted"), id="answers")

    def on_key(self, event: Key) -> None:
        """One of the keys answers."""
        if event.character in {key for key, _, _ in self._answers}:
            event.stop()
            self.dismiss(event.character)
