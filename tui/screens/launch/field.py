"""One value of a launch."""

from __future__ import annotations

from collections.abc import Iterable

from textual.app import ComposeResult
from textual.containers import HorizontalGroup
from textual.content import Content
from textual.suggester import SuggestFromList
from textual.widgets import Input, Static

from tui.domain.text import plain


class LaunchField(HorizontalGroup):
    """A name, a value and its explanation."""

    def __init__(
        self, name: str, value: str, hint: str, choices: Iterable[str] = (), *, secret: bool = False
    ) -> None:
        super().__init__()
        self._secret = secret
        self.field = name
        self._value = value
        self._hint = hint
        self._choices = list(choices)

    def compose(self) -> ComposeResult:
        yield Static(Content(plain(self.field)), classes="name")
        suggester = SuggestFromList(self._choices) if self._choices else None
        line = Input(self._value, compact=True, suggester=suggester, password=self._secret)
        line.cursor_blink = False
        yield line
        yield Static(Content.styled(plain(self._hint), "$text-muted"), classes="hint")

    @property
    def value(self) -> str:
        """The typed text."""
        return self.query_one(Input).value.strip()
