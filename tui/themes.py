"""Themes as YAML files: the ready-made ones, and the user's own beside them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml
from textual.color import Color, ColorParseError
from textual.theme import Theme

_FIELDS = {field.name for field in fields(Theme)}
_COLOURS = ("primary", "secondary", "warning", "error", "success", "accent", "foreground", "background",
            "surface", "panel", "boost")  # fmt: skip


class ThemeError(ValueError):
    """A theme file can't be used; the message says which, why and what to do."""


def load_theme(path: Path) -> Theme:
    """The theme in one file: the fields of Textual's `Theme`, colours as `#rrggbb` or `ansi_NAME`.

    Raises:
        ThemeError: for a file that can't be read, an unknown field, or a colour that is none.
    """
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ThemeError(f"{path}: can't be read: {error}") from error
    if not isinstance(found, dict) or not found.get("primary"):
        raise ThemeError(f"{path}: a theme is a mapping with at least name and primary")
    unknown = sorted(set(map(str, found)) - _FIELDS)
    if unknown:
        raise ThemeError(
            f"{path}: no theme has a field {unknown[0]!r}; there are {', '.join(sorted(_FIELDS))}"
        )
    variables = {str(k): str(v) for k, v in (found.pop("variables", None) or {}).items()}
    for key in _COLOURS:
        if found.get(key) is not None:
            _check_colour(path, key, found[key])
    found.setdefault("name", path.stem)
    return Theme(**found, variables=variables)


def load_themes(folders: Iterable[Path]) -> tuple[list[Theme], list[str]]:
    """Themes of every `*.yaml` in the folders (a later one wins by name), and what was wrong with others."""
    themes: dict[str, Theme] = {}
    problems = []
    for folder in folders:
        for path in sorted(folder.glob("*.yaml")):
            try:
                theme = load_theme(path)
            except ThemeError as error:
                problems.append(str(error))
            else:
                themes[theme.name] = theme
    return list(themes.values()), problems


def _check_colour(path: Path, key: str, value: Any) -> None:
    try:
        Color.parse(str(value))
    except ColorParseError as error:
        raise ThemeError(f"{path}: {key}: {value!r} is not a colour; write #rrggbb or ansi_NAME") from error
