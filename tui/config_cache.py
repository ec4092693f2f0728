"""The settings as they were last read, so that an unchanged file is read without its parsers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tui import __version__
from tui.config import Context, Settings
from tui.places import state_dir, write_whole


def remembered(file: Path, environment: Mapping[str, str]) -> Settings:
    """The settings of `file` (which may be missing) and of the environment.

    Raises:
        SettingsError: see `tui.config_file.read_settings`.
    """
    key = _key(file, environment)
    place = state_dir() / "settings.json"
    found = _load(place, key)
    if found is None:
        from tui.config_file import read_settings  # noqa: PLC0415 - this is what the memory saves

        found = read_settings(file, environment)
        _save(place, {"key": key, "settings": asdict(found)})
    return found


def _key(file: Path, environment: Mapping[str, str]) -> list[Any]:
    """What the settings are made of. A list, as JSON gives it back."""
    fields = sorted((*Settings.__dataclass_fields__, *Context.__dataclass_fields__))
    try:
        look = file.stat()
        state = [look.st_mtime_ns, look.st_size, look.st_ino]
    except OSError:
        state = []
    return [__version__, fields, str(file), state, sorted([*item] for item in environment.items())]


def _load(place: Path, key: list[Any]) -> Settings | None:
    try:
        found = json.loads(place.read_bytes())
        if found["key"] != key:
            return None
        values = found["settings"]
        values["contexts"] = [Context(**one) for one in values["contexts"]]
        return Settings(**values)
    except (OSError, ValueError, TypeError, LookupError):
        return None


def _save(place: Path, value: Mapping[str, Any]) -> None:
    # A disk that takes nothing costs only time at the next start.
    with contextlib.suppress(OSError):
        write_whole(place, json.dumps(value).encode())
