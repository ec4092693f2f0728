"""Loads the settings from the file and the environment, or the defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tui.config import file_cache
from tui.config.paths import config_dir
from tui.config.settings import Context, Settings, SettingsError


def config_file() -> Path:
    """Return `$VXTUI_CONFIG`, or config.yaml in the user's folder."""
    own = os.environ.get("VXTUI_CONFIG")
    return Path(own) if own else config_dir() / "config.yaml"


def load_settings() -> Settings:
    """Read the settings; a missing default file means all defaults. Raises SettingsError if the file can't be
    read, is not valid YAML or has a wrong field."""
    file = config_file()
    environment = from_environment()
    if not file.exists():
        if "VXTUI_CONFIG" in os.environ:
            raise SettingsError(f"{file}: there is no such file.")
        if not environment:
            return Settings()
    return _cached_settings(file, environment)


def _cached_settings(file: Path, environment: Mapping[str, str]) -> Settings:
    """Return the settings of `file` and the environment. An unchanged file needs no parser."""
    fields = sorted((*Settings.__dataclass_fields__, *Context.__dataclass_fields__))
    key = [fields, file_cache.file_stamps([file]), sorted([*item] for item in environment.items())]
    settings = _settings(file_cache.read_cached("settings", key))
    if settings is None:
        from tui.config.settings_file import read_settings  # noqa: PLC0415 - the cache saves this import

        settings = read_settings(file, environment)
        file_cache.write_cached("settings", key, asdict(settings))
    return settings


def _settings(values: Any) -> Settings | None:
    try:
        return Settings(**{**values, "contexts": [Context(**context) for context in values["contexts"]]})
    except (TypeError, ValueError, LookupError):
        return None


def from_environment() -> dict[str, str]:
    """Return the settings in the environment by field, as text."""
    names = Settings.__dataclass_fields__
    return {name: os.environ[key] for name in names if (key := f"VXTUI_{name.upper()}") in os.environ}
