"""Loads the settings: from the file and the environment, else the defaults."""

from __future__ import annotations

import os
from pathlib import Path

from tui.config.paths import config_dir
from tui.config.settings import Settings, SettingsError


def config_file() -> Path:
    """`$VXTUI_CONFIG`, else config.yaml in the user's folder."""
    own = os.environ.get("VXTUI_CONFIG")
    return Path(own) if own else config_dir() / "config.yaml"


def load_settings() -> Settings:
    """Read the settings; a missing default file means all defaults.

    Raises:
        SettingsError: for a file that can't be read, is not valid YAML or has a wrong field.
    """
    file = config_file()
    given = from_environment()
    if not file.exists():
        if "VXTUI_CONFIG" in os.environ:
            raise SettingsError(f"{file}: there is no such file.")
        if not given:
            return Settings()
    from tui.config.settings_cache import cached_settings  # noqa: PLC0415 - only where there is something to read

    return cached_settings(file, given)


def from_environment() -> dict[str, str]:
    """Settings of the environment by field, as text."""
    names = Settings.__dataclass_fields__
    return {name: os.environ[key] for name in names if (key := f"VXTUI_{name.upper()}") in os.environ}
