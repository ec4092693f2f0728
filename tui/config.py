"""Settings and contexts: `~/.config/vxtui/config.yaml`, all optional."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from tui.domain.profile.source import Document, ProfileInvalid, dotted, read
from tui.places import config_dir

LOCAL = "local"


class SettingsError(Exception):
    """The settings can't be used; one line for each problem, with file, line and field."""


class Context(BaseModel):
    """Where jobs live: a Google project with its regions, or this machine."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1)
    kind: str = Field(default="vertex", pattern="^(vertex|local)$")
    """`vertex` for Google's service, `local` for the emulator on this machine."""

    project: str = Field(default=LOCAL, min_length=1)
    """Project id."""

    regions: list[str] = Field(default_factory=lambda: ["us-central1"], min_length=1)
    """Regions to list; the first is where a profile without a region is launched."""


class Settings(BaseSettings):
    """Everything a user may set; `VXTUI_NAME` in the environment wins over the file."""

    model_config = SettingsConfigDict(extra="forbid", env_prefix="VXTUI_")

    contexts: list[Context] = Field(default_factory=list)
    """Places besides `local`, which always exists."""

    context: str = ""
    """The one to open; empty means the first of `contexts`, or `local` where there is none."""

    read_only: bool = False
    """Refuse every action that changes something."""

    theme: str = ""
    """Name of a theme; empty means vxtui-dark."""

    ascii: bool = False
    """Draw states and lines with ASCII characters only."""

    slow: bool = False
    """For a line known to be slow: few frames a second, no animations."""

    output: Literal["diff", "stock"] = "diff"
    """`diff` sends only what differs, as fast as the line takes it; `stock` leaves that to Textual."""

    keys: dict[str, str] = Field(default_factory=dict)
    """Action id → key, e.g. `job.cancel: x`. `?` shows the ids."""

    profile_folder: str = ""
    """Folder of your own profiles; empty means `profiles` beside the settings."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The file's values arrive as arguments; the environment goes before them."""
        return env_settings, init_settings


def config_file() -> Path:
    """`$VXTUI_CONFIG`, else config.yaml in the user's folder."""
    own = os.environ.get("VXTUI_CONFIG")
    return Path(own) if own else config_dir() / "config.yaml"


def load_settings(path: Path | None = None) -> Settings:
    """Read the settings; a missing default file means all defaults.

    Raises:
        SettingsError: for a file that can't be read, is not valid YAML or has a wrong field.
    """
    file = path or config_file()
    if not file.exists():
        if path is not None or "VXTUI_CONFIG" in os.environ:
            raise SettingsError(f"{file}: there is no such file.")
        return _build({}, None)
    try:
        document = read(file.read_text() or "{}", str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: can't be read: {error}") from error
    except ProfileInvalid as error:
        raise SettingsError(str(error)) from error
    if not isinstance(document.value, Mapping):
        raise SettingsError(f"{file}: expected fields such as `contexts:`.")
    return _build(document.value, document)


def _build(values: Mapping[str, Any], document: Document | None) -> Settings:
    try:
        return Settings(**values)
    except (ValidationError, TypeError) as error:
        if not isinstance(error, ValidationError):
            raise SettingsError(f"{document.file if document else 'settings'}: {error}") from error
        lines = []
        for one in error.errors():
            path = tuple(one["loc"])
            known = ", ".join(Settings.model_fields)
            hint = f" Known are {known}." if one["type"] == "extra_forbidden" and len(path) == 1 else ""
            where = f"{document.file}:{document.line(path)}" if document else "environment"
            lines.append(f"{where}: {dotted(path)}: {one['msg']}.{hint}")
        raise SettingsError("\n".join(lines)) from error


def all_contexts(settings: Settings) -> Sequence[Context]:
    """Configured contexts and `local`, which is always there."""
    named = list(settings.contexts)
    if not any(c.name == LOCAL for c in named):
        named.append(Context(name=LOCAL, kind="local"))
    return named


def choose_context(settings: Settings, name: str = "") -> Context:
    """The context called `name`, else the settings' own, else the first.

    Raises:
        SettingsError: when no context has that name.
    """
    contexts = all_contexts(settings)
    wanted = name or settings.context
    if not wanted:
        return contexts[0]
    for context in contexts:
        if context.name == wanted:
            return context
    known = ", ".join(c.name for c in contexts)
    raise SettingsError(f"there is no context {wanted!r}; known are {known}.")


def profile_folder(settings: Settings) -> Path:
    """Where the user's own profiles are."""
    return (
        Path(settings.profile_folder).expanduser() if settings.profile_folder else config_dir() / "profiles"
    )
