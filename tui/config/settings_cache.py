"""Settings from the cache: an unchanged file is read without its parsers."""

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
    key = [fields, file_cache.file_stamps([file]), sorted([*item] for item in environment.items())]
    found = _settings(file_cache.read_cached("settings", key))
    if found is None:
        from tui.config.settings_file import read_settings  # noqa: PLC0415 - the cache saves this import

        found = read_settings(file, environment)
        file_cache.write_cached("settings", key, asdict(found))
    return found


def _settings(values: Any) -> Settings | None:
    try:
        return Settings(**{**values, "contexts": [Context(**one) for one in values["contexts"]]})
    except (TypeError, ValueError, LookupError):
        return None
