"""The user's own editor on a file, the console waiting behind it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from textual.app import App


def edit_file(app: App[object], path: Path) -> str:
    """Run $VISUAL, $EDITOR or vi on the file; what went wrong, or an empty text."""
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    try:
        with app.suspend():
            # fd 2 is the log while the screen is up; the editor talks to the terminal.
            subprocess.run([*editor, str(path)], check=False, stderr=sys.__stderr__)
    except OSError as error:
        return f"Can't start {editor[0]}: {error.strerror}. Set $EDITOR."
    return ""
