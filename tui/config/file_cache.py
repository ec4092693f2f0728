"""A cache of values parsed from files, so that an unchanged file needs no parser at the next start."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tui import __version__
from tui.config.paths import state_dir, write_whole


def read_cached(name: str, key: Any) -> Any:
    """Return the value cached under this name and key, as JSON returns it, or `None` if there is none."""
    try:
        cached = json.loads(_cache_file(name).read_bytes())
        return cached["value"] if cached["key"] == [__version__, key] else None
    except (OSError, ValueError, TypeError, LookupError):
        return None


def write_cached(name: str, key: Any, value: Any) -> None:
    """Cache the value for the next start. A failed write only costs time."""
    text = json.dumps({"key": [__version__, key], "value": value})
    with contextlib.suppress(OSError):
        write_whole(_cache_file(name), text.encode())


def file_stamps(files: Iterable[Path]) -> list[list[Any]]:
    """Return the path, mtime, size and inode of each file as a cache key; only the path of a missing file."""
    stamps: list[list[Any]] = []
    for path in files:
        try:
            stat = path.stat()
        except OSError:
            stamps.append([str(path)])
        else:
            stamps.append([str(path), stat.st_mtime_ns, stat.st_size, stat.st_ino])
    return stamps


def _cache_file(name: str) -> Path:
    return state_dir() / "cache" / f"{name}.json"
