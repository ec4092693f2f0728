"""What was made from files that have not changed since: kept, so that a start needs no parser for it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tui import __version__
from tui.config.paths import state_dir, write_whole


def recall(name: str, key: Any) -> Any:
    """What was kept under this name for this very key, as JSON gives it back; `None` where there is none."""
    try:
        found = json.loads(_place(name).read_bytes())
        return found["value"] if found["key"] == [__version__, key] else None
    except (OSError, ValueError, TypeError, LookupError):
        return None


def keep(name: str, key: Any, value: Any) -> None:
    """Keep it for the next start. A disk that takes nothing costs only time then."""
    text = json.dumps({"key": [__version__, key], "value": value})
    with contextlib.suppress(OSError):
        write_whole(_place(name), text.encode())


def looks(files: Iterable[Path]) -> list[list[Any]]:
    """What tells whether a file has changed, for a key; a missing one says so."""
    found: list[list[Any]] = []
    for path in files:
        try:
            look = path.stat()
        except OSError:
            found.append([str(path)])
        else:
            found.append([str(path), look.st_mtime_ns, look.st_size, look.st_ino])
    return found


def _place(name: str) -> Path:
    return state_dir() / "memory" / f"{name}.json"
