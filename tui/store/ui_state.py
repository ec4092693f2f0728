"""Choices on the screen that are saved for the next start, apart from the settings."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

from tui.config.paths import write_whole


class UiState:
    """The theme chosen by a command, and the view of each context's lists, in the state directory.

    A chosen theme applies until the settings name another theme, because a later change of the settings is
    the newer choice. A failing disk does not prevent the current use of a choice.
    """

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / "ui_state.json"
        self._lock = Lock()

    def theme(self, settings_theme: str) -> str:
        """Return the first theme: the last choice, or else the settings' theme, which may be empty."""
        saved = self._read()
        if "theme" in saved and saved.get("instead_of") == settings_theme:
            return str(saved["theme"])
        return settings_theme

    def choose(self, theme: str, settings_theme: str) -> None:
        """Save a theme for the next start."""
        self._change(lambda kept: kept.update(theme=theme, instead_of=settings_theme))

    def view(self, context: str, name: str) -> dict[str, Any]:
        """Return the saved view of this list in this context, or an empty view."""
        state: Any = self._read()
        for key in ("views", context, name):
            state = state.get(key) if isinstance(state, dict) else None
        return state if isinstance(state, dict) else {}

    def keep_view(self, context: str, name: str, view: dict[str, Any]) -> None:
        """Save a list's view in a context (blocking)."""

        def put(kept: dict[str, Any]) -> None:
            views = kept["views"] = kept["views"] if isinstance(kept.get("views"), dict) else {}
            mine = views[context] = views[context] if isinstance(views.get(context), dict) else {}
            mine[name] = view

        self._change(put)

    def _read(self) -> dict[str, Any]:
        try:
            state = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) else {}

    def _change(self, change: Callable[[dict[str, Any]], object]) -> None:
        with self._lock, contextlib.suppress(OSError):
            kept = self._read()
            change(kept)
            write_whole(self._path, json.dumps(kept).encode())
