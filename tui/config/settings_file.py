"""Reads and validates the settings file. The module loads the parsers, so it is imported only for a changed
file."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from tui.config.guard_settings import AlertChannel, AlertRule, GuardSettings, guard_settings
from tui.config.regular_file import read_regular
from tui.config.settings import Context, Settings, SettingsError, all_contexts, unknown_context
from tui.domain.core.resource_name import GKE_CLUSTER, is_location, is_project
from tui.domain.document.decoding import decode_json
from tui.domain.document.source import Document, ProfileInvalid, dotted, read

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_MOST_BYTES = 1_000_000
_NAMESPACE = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_JSON_FIELDS = ("contexts", "keys", "guard")
"""Fields whose environment variable contains JSON."""
_WORDS = {
    "missing": "this setting is missing",
    "bool_parsing": "expected true or false",
    "bool_type": "expected true or false",
    "string_type": "expected a string; put the value in quotes",
    "list_type": "expected a list; put a dash before each element",
    "dict_type": "expected fields, each as `name: value`",
    "dataclass_type": "expected fields, each as `name: value`",
}
"""Messages by pydantic's error type. Other types use pydantic's sentence."""


def read_settings(file: Path, environment: Mapping[str, str]) -> Settings:
    """Read a settings file, which may be missing; the environment takes precedence. Raises SettingsError if
    it can't be read, is not valid YAML or has a wrong field."""
    document = _read(file) if file.exists() else Document(str(file), {})
    if not isinstance(document.value, Mapping):
        raise SettingsError(f"{file}: expected fields such as `contexts:`.")
    values: dict[str, Any] = {**document.value, **environment}
    for name in _JSON_FIELDS:
        if name in environment:
            values[name] = _json(name, environment[name])
    try:
        settings = TypeAdapter(Settings).validate_python(values)
    except ValidationError as error:
        raise SettingsError("\n".join(_lines(error, document, environment))) from error
    _check_names(settings, document, environment)
    _check_guard(settings, document, environment)
    return settings


def _check_guard(settings: Settings, document: Document, environment: Mapping[str, str]) -> None:
    """Raise SettingsError for wrong settings of the guard."""
    try:
        guard = guard_settings(settings)
    except ValidationError as error:
        raise SettingsError("\n".join(_lines(error, document, environment, "guard"))) from error
    known = [context.name for context in all_contexts(settings) if context.kind != "group"]
    named = [(("guard", "contexts", at), name) for at, name in enumerate(guard.contexts)]
    named += [(("guard", "may_cancel", at), name) for at, name in enumerate(guard.may_cancel)]
    for path, name in named:
        if name not in known:
            raise SettingsError(f"{_where(path, document, environment)}: {unknown_context(name, known)}")


def _check_names(settings: Settings, document: Document, environment: Mapping[str, str]) -> None:
    """Raise SettingsError for unknown names of contexts."""
    contexts = all_contexts(settings)
    wrong: list[tuple[tuple[str | int, ...], str]] = []
    if settings.context and settings.context not in {c.name for c in contexts}:
        wrong.append((("context",), unknown_context(settings.context, [c.name for c in contexts])))
    single = [c.name for c in contexts if c.kind != "group"]
    for at, context in enumerate(settings.contexts):
        if context.kind in {"vertex", "kubernetes"}:
            odd = _odd_names(context) if context.kind == "vertex" else _odd_names_of_cluster(context)
            wrong += [(("contexts", at, *path), problem) for path, problem in odd]
        for number, member in enumerate(context.members):
            if member not in single:
                wrong.append((("contexts", at, "members", number), unknown_context(member, single)))
    if wrong:
        lines = [f"{_where(path, document, environment)}: {problem}" for path, problem in wrong]
        raise SettingsError("\n".join(lines))


def _odd_names(context: Context) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the values of a context that can't be Google names, with their paths."""
    if not is_project(context.project):
        yield (
            ("project",),
            f"{context.project!r} must be a project id of lower-case letters, digits and hyphens, such as "
            "my-project-1",
        )
    for number, region in enumerate(context.regions):
        if not is_location(region):
            yield (
                ("regions", number),
                f"{region!r} must be a region of lower-case letters, digits and hyphens, such as us-central1",
            )


def _odd_names_of_cluster(context: Context) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the values of a cluster's context that can't be names, with their paths."""
    if context.gke and not GKE_CLUSTER.fullmatch(context.gke):
        yield (
            ("gke",),
            f"{context.gke!r} must be a GKE cluster: projects/PROJECT/locations/LOCATION/clusters/NAME",
        )
    if context.project and not is_project(context.project):
        yield ("project",), f"{context.project!r} must be a project id"
    for number, namespace in enumerate(context.namespaces):
        if not _NAMESPACE.fullmatch(namespace):
            yield (
                ("namespaces", number),
                f"{namespace!r} must be a namespace: lower-case letters, digits and hyphens, e.g. team-a",
            )


def _class_of(path: tuple[str | int, ...]) -> type[DataclassInstance]:
    """Return the class whose field a path names."""
    if path[0] == "guard":
        return {"channels": AlertChannel, "alerts": AlertRule}.get(str(path[1]), GuardSettings)
    return Settings if len(path) == 1 else Context


def _where(path: tuple[str | int, ...], document: Document, environment: Mapping[str, str]) -> str:
    name = str(path[0]) if path else ""
    if name in environment:
        return f"VXTUI_{name.upper()} in the environment"
    return f"{document.file}:{document.line(path)}: {dotted(path)}"


def _read(file: Path) -> Document:
    try:
        text = read_regular(file, _MOST_BYTES).decode()
        without = all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines())
        return read("{}" if without else text, str(file))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SettingsError(f"{file}: can't be read: {reason}.") from error
    except ProfileInvalid as error:
        raise SettingsError(str(error)) from error


def _json(name: str, text: str) -> Any:
    try:
        return decode_json(text)
    except ValueError as error:
        raise SettingsError(f"VXTUI_{name.upper()} in the environment: not valid JSON: {error}.") from error


def _lines(
    error: ValidationError, document: Document, environment: Mapping[str, str], *within: str
) -> list[str]:
    lines = []
    for detail in error.errors():
        path = (*within, *detail["loc"])
        message = detail["msg"].removeprefix("Value error, ")
        if detail["type"] == "unexpected_keyword_argument":
            known = [f.name for f in fields(_class_of(path))]
            near = difflib.get_close_matches(str(path[-1]), known, 1)
            message = "unknown setting"
            message += f"; did you mean {near[0]}?" if near else f". Known settings: {', '.join(known)}."
        else:
            message = f"{_WORDS.get(detail['type'], message)}."
        lines.append(f"{_where(path, document, environment)}: {message}")
    return lines
