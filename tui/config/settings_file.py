"""Reads and validates the settings file. It loads the parsers, so only a changed file comes here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tui.config.settings import Settings, SettingsError
from tui.domain.profile.source import Document, ProfileInvalid, dotted, read

_JSON_FIELDS = ("contexts", "keys")
"""Fields that the environment gives as JSON text."""


def read_settings(file: Path, environment: Mapping[str, str]) -> Settings:
    """The settings of a file, which may be missing; the environment takes precedence.

    Raises:
        SettingsError: for a file that can't be read, is not valid YAML or has a wrong field.
    """
    document = _read(file) if file.exists() else Document(str(file), {})
    if not isinstance(document.value, Mapping):
        raise SettingsError(f"{file}: expected fields such as `contexts:`.")
    values: dict[str, Any] = {**document.value, **environment}
    for name in _JSON_FIELDS:
        if name in environment:
            values[name] = _json(name, environment[name])
    try:
        return TypeAdapter(Settings).validate_python(values)
    except ValidationError as error:
        raise SettingsError("\n".join(_lines(error, document, environment))) from error


def _read(file: Path) -> Document:
    try:
        return read(file.read_text() or "{}", str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: can't be read: {error}") from error
    except ProfileInvalid as error:
        raise SettingsError(str(error)) from error


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise SettingsError(f"VXTUI_{name.upper()} in the environment: not valid JSON: {error}.") from error


def _lines(error: ValidationError, document: Document, environment: Mapping[str, str]) -> list[str]:
    lines = []
    for one in error.errors():
        path = tuple(one["loc"])
        what = one["msg"]
        if one["type"] == "unexpected_keyword_argument":
            what = "there is no such setting"
            if len(path) == 1:
                what += f". Known are {', '.join(f.name for f in fields(Settings))}"
        name = str(path[0]) if path else ""
        if name in environment:
            lines.append(f"VXTUI_{name.upper()} in the environment: {what}.")
        else:
            lines.append(f"{document.file}:{document.line(path)}: {dotted(path)}: {what}.")
    return lines
