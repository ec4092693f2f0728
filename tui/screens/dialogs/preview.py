"""The exact request that a launch would send, as YAML or JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import yaml
from textual.content import Content

from tui.actions.registry import Action, bindings
from tui.domain.core.formatting import pieces
from tui.domain.core.text import plain
from tui.domain.masking import masked
from tui.screens.dialogs.text_screen import TextScreen
from tui.widgets.header_lines import Line

if TYPE_CHECKING:
    from tui.screens.console_app import ConsoleApp

_KEY = re.compile(r"^(\s*(?:- )*)([\w./-]+:)(.*)$")


class PreviewScreen(TextScreen):
    """Shows the request. `j` switches between YAML and JSON, `y` copies, `x` shows or masks the secrets."""

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
        """Set the request. A profile declares `secrets`; other secrets are found by pattern and name."""
        super().__init__()
        self._title = plain(title)
        self._path = plain(path)
        self._request = json.loads(json.dumps(request, default=str))
        self._masked, self._hidden = masked(self._request, secrets)
        self._open = False
        self._json = as_json

    @property
    def heading(self) -> str:
        return self._title

    @property
    def text(self) -> str:
        shown = self._request if self._open else self._masked
        if self._json:
            return json.dumps(shown, indent=2, ensure_ascii=False)
        return yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=100)

    def line(self, line: str) -> Content:
        match = None if self._json else _KEY.match(line)
        if match is None:
            return super().line(line)
        return Content.assemble(match[1], (match[2], "$text-primary"), plain(match[3]))

    def second_line(self) -> Line:
        kind = "JSON" if self._json else "YAML"
        hidden = f"{pieces(self._hidden, 'secret')} {'shown' if self._open else 'masked'}   "
        right = Content.assemble((hidden if self._hidden else "", "$text-warning"), (kind, "$text-muted"))
        return Content.assemble(("POST ", "bold"), self._path), right

    def unmet(self, condition: str, action: Action) -> str:
        if condition == "secrets":
            return "" if self._hidden else "The text contains no secrets."
        return super().unmet(condition, action)

    def action_unmask(self) -> None:
        """Show secrets, or mask them."""
        self._open = not self._open
        self.show()

    def action_format(self) -> None:
        """Switch between YAML and JSON."""
        self._json = not self._json
        self.show()

    def action_copy(self) -> None:
        """Copy the shown text."""
        cast("ConsoleApp", self.app).send_copy(self.text, "the request")
