"""The changes of a draft against its file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from tui.actions.registry import bindings
from tui.domain.core.text import plain
from tui.screens.frame import FrameScreen
from tui.widgets.header_lines import Line

if TYPE_CHECKING:
    from tui.screens.console_app import ConsoleApp

_TONE = {"+": "$text-success", "-": "$text-error", "@": "$text-primary"}


def diff_line(line: str) -> Content:
    """Return one line of a diff in its colour."""
    return Content.styled(plain(line), _TONE.get(line[:1], ""))


class DiffScreen(FrameScreen):
    """A unified diff that scrolls."""

    SCOPE = "diff"
    CSS_PATH = "../dialogs/preview.tcss"
    BINDINGS = bindings("diff")

    def __init__(self, name: str, lines: Sequence[str]) -> None:
        super().__init__()
        self._name = plain(name)
        self._lines = list(lines)

    def compose_body(self) -> Iterable[Widget]:
        with VerticalScroll(id="request"):
            yield Static(Content("\n").join(map(diff_line, self._lines)), id="text", markup=False)

    def on_mount(self) -> None:
        self.query_one("#request").focus()

    def top_line(self) -> Line:
        return Content.assemble(
            ("vxtui", "bold $accent"), "   ", (f"Changes of {self._name}", "bold")
        ), Content("")

    def second_line(self) -> Line:
        body = self._lines[2:]
        added, gone = (sum(line[:1] == sign for line in body) for sign in "+-")
        return Content.assemble(
            (f"+{added}", "$text-success"),
            "  ",
            (f"-{gone}", "$text-error"),
            ("  not saved yet", "$text-muted"),
        ), Content("")

    def action_copy(self) -> None:
        """Copy the diff."""
        cast("ConsoleApp", self.app).send_copy("\n".join(self._lines) + "\n", "the changes")

    def action_back(self) -> None:
        """Return to the form."""
        self.dismiss()
