"""The settings as they were last read, so that an unchanged file is read without its parsers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tui.config import file_cache
from tui.config.settings import Context, Settings


def cached_settings(file: Path, environment: Mapping[str, str]) -> Settings:
    """The settings of `file` (which may be missing) and of the environment.

    Raises:
        SettingsError: see `tui.config.settings_file.read_settings`.
    """
    fields = sorted((*Settings.__dataclass_fields__, *Context.__dataclass_fields__))
    key = [fields, file_cache.looks([file]), sorted([*item] for item in environment.items())]
    found = _settings(file_cache.recall("settings", key))
    if found is None:
        from tui.config.settings_file import read_settings  # noqa: PLC0415 - this is what the memory saves

        found = read_settings(file, environment)
        file_cache.keep("settings", key, asdict(found))
    return found


def _settings(values: Any) -> Settings | None:
    try:
        return Settings(**{**values, "contexts": [Context(**one) for one in values["contexts"]]})
    except (TypeError, ValueError, LookupError):
        return None
