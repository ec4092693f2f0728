"""The exact request that a launch would send, as YAML or JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import yaml
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from tui.actions.registry import Action, bindings
from tui.domain.formatting import pieces
from tui.domain.masking import masked
from tui.domain.text import plain
from tui.screens.frame import FrameScreen
from tui.widgets.header_lines import Line

if TYPE_CHECKING:
    from tui.screens.console_app import ConsoleApp

_KEY = re.compile(r"^(\s*(?:- )*)([\w./-]+:)(.*)$")


class PreviewScreen(FrameScreen):
    """`j` switches between YAML and JSON, `y` copies, `x` shows the secrets or masks them."""

    SCOPE = "preview"
    CSS_PATH = "preview.tcss"
    BINDINGS = bindings("preview")

    def __init__(
        self,
        title: str,
        path: str,
        request: Mapping[str, Any],
        *,
        as_json: bool = False,
        secrets: Iterable[str] = (),
    ) -> None:
        """`secrets` are those that a profile declares; others are found by their shape and name."""
        super().__init__()
        self._title = plain(title)
        self._path = plain(path)
        self._request = json.loads(json.dumps(request, default=str))
        self._masked, self._hidden = masked(self._request, secrets)
        self._open = False
        self._json = as_json

    def compose_body(self) -> Iterable[Widget]:
        with VerticalScroll(id="request"):
            yield Static("", id="text", markup=False)

    def on_mount(self) -> None:
        self.query_one("#request").focus()
        self._show()

    @property
    def text(self) -> str:
        """The shown text."""
        shown = self._request if self._open else self._masked
        if self._json:
            return json.dumps(shown, indent=2, ensure_ascii=False)
        return yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=100)

    def _show(self) -> None:
        lines = []
        for line in self.text.splitlines():
            match = _KEY.match(line)
            if match and not self._json:
                lines.append(Content.assemble(match[1], (match[2], "$text-primary"), plain(match[3])))
            else:
                lines.append(Content(plain(line)))
        self.query_one("#text", Static).update(Content("\n").join(lines))
        self.refresh_frame()

    def top_line(self) -> Line:
        return Content.assemble(("vxtui", "bold $accent"), "   ", (self._title, "bold")), Content("")

    def second_line(self) -> Line:
        kind = "JSON" if self._json else "YAML"
        hidden = f"{pieces(self._hidden, 'secret')} {'shown' if self._open else 'masked'}   "
        right = Content.assemble((hidden if self._hidden else "", "$text-warning"), (kind, "$text-muted"))
        return Content.assemble(("POST ", "bold"), self._path), right

    def blocked_reason(self, found: Action) -> str | None:
        if found.id == "preview.unmask" and not self._hidden:
            return "There are no secrets in it."
        return super().blocked_reason(found)

    def action_unmask(self) -> None:
        """Show secrets, or mask them."""
        self._open = not self._open
        self._show()

    def action_format(self) -> None:
        """YAML or JSON."""
        self._json = not self._json
        self._show()

    def action_copy(self) -> None:
        """Copy the shown text."""
        cast("ConsoleApp", self.app).send_copy(self.text, "the request")

    def action_back(self) -> None:
        """Close it."""
        self.dismiss()
