"""What the user chose on the screen and keeps for the next start, apart from the settings."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

from tui.config.paths import write_whole


class UiState:
    """The theme chosen by a command, and how each context's lists are shown, in the state directory.

    A chosen theme holds as long as the settings name the theme that they named when it was chosen: what is
    written into them later is the newer choice. A failing disk does not prevent the use of a choice now.
    """

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / "ui_state.json"
        self._lock = Lock()

    def theme(self, settings_theme: str) -> str:
        """The theme to start in: the one chosen last, else the settings' own (may be empty)."""
        found = self._read()
        if "theme" in found and found.get("instead_of") == settings_theme:
            return str(found["theme"])
        return settings_theme

    def choose(self, theme: str, settings_theme: str) -> None:
        """Save a theme for the next start."""
        self._change(lambda kept: kept.update(theme=theme, instead_of=settings_theme))

    def view(self, context: str, name: str) -> dict[str, Any]:
        """What was kept of this list in this context; empty where there is nothing that can be read."""
        found: Any = self._read()
        for key in ("views", context, name):
            found = found.get(key) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}

    def keep_view(self, context: str, name: str, view: dict[str, Any]) -> None:
        """Save how a list is shown in a context (blocking)."""

        def put(kept: dict[str, Any]) -> None:
            views = kept["views"] = kept["views"] if isinstance(kept.get("views"), dict) else {}
            mine = views[context] = views[context] if isinstance(views.get(context), dict) else {}
            mine[name] = view

        self._change(put)

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _change(self, change: Callable[[dict[str, Any]], object]) -> None:
        with self._lock, contextlib.suppress(OSError):
            kept = self._read()
            change(kept)
            write_whole(self._path, json.dumps(kept).encode())
