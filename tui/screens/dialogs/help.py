"""The keys that work on the current screen, from the registry. A blocked key shows the reason."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalGroup, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.actions.registry import Action, actions, key_text
from tui.domain.core.text import plain
from tui.kinds.registry import kinds
from tui.screens.frame import FrameScreen
from tui.widgets.labelled_lines import EMPTY, Labelled
from tui.widgets.long_lines import LongLines

WIDE = 108
"""Minimum width at which the action ids fit; the setting `keys` uses these ids."""
HELP = 58
_TITLES = {
    "app": "everywhere", "table": "in the list", "job_events": "events", "quota_grid": "quotas",
    "quotas": "list of quotas", "pane": "in the tab", "formview": "in the form", "logview": "in the log",
    "heatmap": "in the map", "launchvalue": "in a value", "launchchoice": "in a value with choices",
}  # fmt: skip


def _title(scope: str) -> str:
    """Return the title of a scope. A kind's own keys are listed under its noun."""
    nouns = {kind.scope: kind.words.noun for kind in kinds()}
    return nouns.get(scope) or _TITLES.get(scope, scope)


class HelpScreen(ModalScreen[None]):
    """The keys by scope, the most specific scope first."""

    CSS_PATH = "help.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter", "app.pop_screen", "Back"),
        Binding("j", "scroll('down')", "Down"),
        Binding("k", "scroll('up')", "Up"),
    ]

    def __init__(self, frame: FrameScreen) -> None:
        super().__init__()
        self._frame = frame
        self._named = False

    def compose(self) -> ComposeResult:
        with VerticalGroup(id="help"):
            hint = ("   esc back   ctrl+p finds anything by name", "$text-muted")
            yield Static(Content.assemble(("Keys that work here", "bold"), hint), id="title")
            with VerticalScroll(id="keys"):
                lines = LongLines("list")
                self._named = self.app.size.width >= WIDE
                # Set the content before the layout, because each further layout takes longer than all
                # drawing.
                lines.show(self._keys(named=self._named))
                yield lines

    def on_resize(self) -> None:
        """Show the action ids if there is room."""
        if self._named != (self.size.width >= WIDE):
            self._named = not self._named
            self.query_one(LongLines).show(self._keys(named=self._named))

    def _keys(self, *, named: bool) -> list[Labelled]:
        lines: list[Labelled] = []
        scopes = dict.fromkeys((*self._frame.scopes(), "table"))
        wide = max(len(self._key(action)) for scope in scopes for action in actions(scope))
        for scope in sorted(scopes, key=lambda s: s in {"app", "table"}):
            if not actions(scope) or (scope == "table" and not self._frame.query("Table")):
                continue
            lines += [(EMPTY, EMPTY), (EMPTY, Content.styled(_title(scope), "bold $accent"))]
            for action in actions(scope):
                reason = None if action.direct else self._frame.blocked_reason(action)
                style = "$text-muted" if reason else ""
                keys = Content.styled(
                    f"  {self._key(action):<{wide}}  ", "bold $text-muted" if reason else "bold"
                )
                name = (f"{'':<{max(0, HELP - len(action.help))}}  {action.id}", "$text-muted")
                words = Content.styled(action.help, style)
                lines.append((keys, Content.assemble(words, name) if named else words))
                if reason:
                    text = Content.styled(plain(reason), "$text-muted italic")
                    lines.append((Content(" " * keys.cell_length), text))
        return lines[1:]

    def _key(self, action: Action) -> str:
        return key_text(action, self._frame.keymap) or f":{action.word}"

    def action_scroll(self, way: str) -> None:
        """Scroll the list."""
        keys = self.query_one("#keys", VerticalScroll)
        (keys.scroll_down if way == "down" else keys.scroll_up)(animate=False)
