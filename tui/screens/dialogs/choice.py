"""A question with a few named answers, each with a key. Esc closes the question without an answer or a
change."""

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

from tui.domain.core.text import plain

Answer = tuple[str, str, str]
"""Key, label, and a note."""
REASONS_SHARE = 34
"""Percentage of the screen's height for the reasons, as in the style sheet."""


class ChoiceScreen(ModalScreen[str]):
    """Returns the pressed key. The dialog has no default answer: enter does nothing, so a held key is
    harmless.

    `reasons` are lines between the question and the answers. The reasons take at most `REASONS_SHARE` percent
    of the rows.
    """

    CSS_PATH = "choice.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "app.pop_screen", "Back")]

    def __init__(
        self, question: str, answers: Sequence[Answer], reasons: Sequence[str | Content] = ()
    ) -> None:
        super().__init__()
        self._question = plain(question)
        self._answers = list(answers)
        self._reasons = [line if isinstance(line, Content) else Content(plain(line)) for line in reasons]

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
                    yield Static(Content("\n").join(self._reasons))
            yield Static(Content("\n").join(lines), id="details")
            yield Static(Content.styled("esc back", "$text-muted"), id="answers")

    def on_key(self, event: Key) -> None:
        """Close the dialog with the pressed key if the key is one of the answers."""
        if event.character in {key for key, _, _ in self._answers}:
            event.stop()
            self.dismiss(event.character)
