"""The keys that work here, from the registry; what can't be done now says why."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalGroup, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.actions import actions, key_text
from tui.screens.frame import FrameScreen

_TITLES = {"app": "everywhere", "table": "in the list"}


class HelpScreen(ModalScreen[None]):
    """A list by scope, the most specific first."""

    CSS_PATH = "help.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter", "app.pop_screen", "Back"),
        Binding("j", "scroll('down')", "Down"),
        Binding("k", "scroll('up')", "Up"),
    ]

    def __init__(self, frame: FrameScreen) -> None:
        super().__init__()
        self._frame = frame

    def compose(self) -> ComposeResult:
        with VerticalGroup(id="help"):
            yield Static(Content.styled("Keys that work here", "bold"), id="title")
            with VerticalScroll(id="keys"):
                yield Static(self._keys())
            yield Static(Content.styled("esc back   ctrl+p finds anything by name", "$text-muted"))

    def _keys(self) -> Content:
        lines: list[Content] = []
        scopes = dict.fromkeys((*self._frame.scopes(), "table"))
        for scope in sorted(scopes, key=lambda s: s in _TITLES):
            if scope == "table" and not self._frame.query("Table"):
                continue
            lines += [Content(""), Content.styled(_TITLES.get(scope, scope), "bold $accent")]
            for found in actions(scope):
                key = key_text(found, self._frame.keymap) or f":{found.word}"
                reason = None if found.direct else self._frame.why_not(found)
                style = "$text-muted" if reason else ""
                keys = (f"  {key:<12}", "bold $text-muted" if reason else "bold")
                lines.append(
                    Content.assemble(keys, (f"{found.help:<58}", style), (f"  {found.id}", "$text-muted"))
                )
                if reason:
                    lines.append(Content.styled(f"{'':<14}{reason}", "$text-muted italic"))
        return Content("\n").join(lines[1:])

    def action_scroll(self, way: str) -> None:
        """Scroll the list."""
        keys = self.query_one("#keys", VerticalScroll)
        (keys.scroll_down if way == "down" else keys.scroll_up)(animate=False)
