"""A question answered with a line of text."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalGroup
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from tui.domain.core.text import plain


class PromptScreen(ModalScreen[str]):
    """Returns the text, or None on esc. `check` returns the text's problem, or ""."""

    CSS_PATH = "prompt.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "app.pop_screen", "Back")]

    def __init__(self, question: str, value: str = "", *, check: Callable[[str], str] = lambda _: "") -> None:
        super().__init__()
        self._question = plain(question)
        self._value = value
        self._check = check

    def compose(self) -> ComposeResult:
        with VerticalGroup(id="dialog"):
            yield Static(Content(self._question), id="question")
            line = Input(self._value, compact=True)
            line.cursor_blink = False
            yield line
            yield Static(Content.styled("enter accepts   esc back", "$text-muted"), id="problem")

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        problem = self._check(event.value.strip())
        if problem:
            self.query_one("#problem", Static).update(Content.styled(plain(problem), "$text-error"))
        else:
            self.dismiss(event.value.strip())
