"""The user's web browser, if this session has a display."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from urllib.parse import urlsplit

_OPENERS = ("xdg-open", "wslview", "gio open")


def opener(environ: Mapping[str, str], platform: str = sys.platform) -> list[str] | None:
    """Return the command that opens an address; `None` if there is no display. A text browser does not count,
    because it would draw over the screen."""
    if platform == "darwin":
        return None if "SSH_CONNECTION" in environ else ["open"]
    if not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY") or environ.get("WSL_DISTRO_NAME")):
        return None
    own = environ.get("BROWSER", "").split(os.pathsep)[0]
    for command in (own, *_OPENERS):
        words = shlex.split(command.replace("%s", ""))
        if words and (program := shutil.which(words[0], path=environ.get("PATH"))):
            return [program, *words[1:]]
    return None


def open_page(url: str) -> bool:
    """Open a web address in the browser. Return False if there is no browser, or for another address."""
    command = opener(os.environ) if urlsplit(url).scheme in {"http", "https"} else None
    if command is None:
        return False
    null = subprocess.DEVNULL
    try:
        # The browser's output must not reach the screen.
        subprocess.Popen([*command, url], stdin=null, stdout=null, stderr=null, start_new_session=True)
    except OSError:
        return False
    return True
