"""What the user chose on the screen and keeps for the next start, apart from the settings."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from tui.config.paths import write_whole


class UiState:
    """The theme chosen by a command, in the state directory.

    It holds as long as the settings name the theme that they named when it was chosen: what is written into
    them later is the newer choice.
    """

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / "ui_state.json"

    def theme(self, settings_theme: str) -> str:
        """The theme to start in: the one chosen last, else the settings' own (may be empty)."""
        try:
            found = json.loads(self._path.read_bytes())
            chosen, instead_of = str(found["theme"]), found["instead_of"]
        except (OSError, ValueError, TypeError, LookupError):
            return settings_theme
        return chosen if instead_of == settings_theme else settings_theme

    def choose(self, theme: str, settings_theme: str) -> None:
        """Save a theme for the next start. A failing disk does not prevent its use now."""
        with contextlib.suppress(OSError):
            write_whole(self._path, json.dumps({"theme": theme, "instead_of": settings_theme}).encode())
