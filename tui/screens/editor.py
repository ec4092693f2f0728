"""Runs the user's editor on a file while the console is suspended."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.app import App

if TYPE_CHECKING:
    from tui.screens.console_app import ConsoleApp


async def edit_file(console: ConsoleApp, path: Path) -> None:
    """Run $VISUAL, $EDITOR or vi on the file, and show an error if the editor fails."""
    outcome = await console.operations.profiles().edit(path, lambda: _run_editor(console, path))
    if not outcome.ok:
        console.notify(outcome.text, severity="error", markup=False)


def _run_editor(app: App[Any], path: Path) -> str:
    """Run the editor. Return the error, or ""."""
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    try:
        with app.suspend():
            # fd 2 is the log while the screen is shown; the editor needs the terminal.
            subprocess.run([*editor, str(path)], check=False, stderr=sys.__stderr__)
    except OSError as error:
        return f"Can't start {editor[0]}: {error.strerror}. Set $EDITOR."
    return ""
