"""Themes as YAML files, shipped and the user's own."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from textual.color import Color, ColorParseError
from textual.theme import BUILTIN_THEMES, Theme

from tui.config import file_cache
from tui.config.regular_file import read_regular
from tui.domain.document.decoding import decode_yaml

_FIELDS = {field.name for field in fields(Theme)}
_MOST_BYTES = 100_000
_COLOURS = ("primary", "secondary", "warning", "error", "success", "accent", "foreground", "background",
            "surface", "panel", "boost")  # fmt: skip


class ThemeError(ValueError):
    """A theme file can't be used. The message names the file, the reason and the fix."""


def load_theme(path: Path) -> Theme:
    """Load the theme of one file: the fields of Textual's `Theme`, colours as `#rrggbb` or `ansi_NAME`.
    Raises ThemeError if the file can't be read, has an unknown field, or an invalid colour."""
    import yaml  # noqa: PLC0415 - a start reads cached themes

    try:
        fields = decode_yaml(read_regular(path, _MOST_BYTES))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ThemeError(f"{path}: can't be read: {error}") from error
    if not isinstance(fields, dict) or not fields.get("primary"):
        raise ThemeError(f"{path}: a theme must be a mapping with at least name and primary")
    unknown = sorted(set(map(str, fields)) - _FIELDS)
    if unknown:
        raise ThemeError(
            f"{path}: unknown field {unknown[0]!r}; a theme's fields are {', '.join(sorted(_FIELDS))}"
        )
    variables = {str(k): str(v) for k, v in (fields.pop("variables", None) or {}).items()}
    for key in _COLOURS:
        if fields.get(key) is not None:
            _check_colour(path, key, fields[key])
    fields.setdefault("name", path.stem)
    return Theme(**fields, variables=variables)


def load_themes(folders: Sequence[Path]) -> tuple[list[Theme], list[str]]:
    """Load the themes of every `*.yaml` in the folders. Return the themes and their problems; of equal names
    the last wins."""
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


def known_themes(folders: Sequence[Path]) -> tuple[list[str], list[str]]:
    """Return the names of Textual's themes and of those in the folders, sorted, and their problems."""
    themes, problems = load_themes(folders)
    return sorted({*BUILTIN_THEMES, *(theme.name for theme in themes)}), problems


def cached_themes(folders: Sequence[Path]) -> tuple[list[Theme], list[str]]:
    """Return `load_themes`, from the cache if no file has changed."""
    paths = [path for folder in folders for path in (folder, *sorted(folder.glob("*.yaml")))]
    key = [sorted(_FIELDS), file_cache.file_stamps(paths)]
    kept = file_cache.read_cached("themes", key)
    with contextlib.suppress(TypeError, LookupError):
        return [Theme(**theme) for theme in kept["themes"]], list(kept["problems"])
    themes, problems = load_themes(folders)
    file_cache.write_cached(
        "themes", key, {"themes": [asdict(theme) for theme in themes], "problems": problems}
    )
    return themes, problems


def _check_colour(path: Path, key: str, value: Any) -> None:
    try:
        Color.parse(str(value))
    except ColorParseError as error:
        raise ThemeError(f"{path}: {key}: {value!r} must be a colour: #rrggbb or ansi_NAME") from error
