"""Check an object against an OpenAPI v3 schema, built in or from a cluster's CRD, as Kubernetes does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tui.domain.kubernetes.schema.language import UNCHANGED

Path = tuple[str | int, ...]
Schema = Mapping[str, Any]
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,), "integer": (int,),
    "number": (int, float),
}  # fmt: skip
_NAMES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
_FIELD_NAME = re.compile(r"[A-Za-z_][\w-]*")


@dataclass(frozen=True, slots=True)
class SchemaProblem:
    """A problem with a value that the schema refuses."""

    path: Path
    reason: str
    """Kubernetes' own reason, e.g. FieldValueRequired."""
    message: str
    """Kubernetes' sentence, without the name of the field."""

    @property
    def field(self) -> str:
        """The path in Kubernetes' notation."""
        return shown(self.path)


def problems(value: Any, schema: Schema, path: Path = ()) -> Iterator[SchemaProblem]:
    """Yield every problem of `value` with the schema, except unknown fields (see `unknown_fields`)."""
    if value is None:
        # Kubernetes treats null as an absent field and drops it.
        return
    wrong = _wrong_type(value, schema, path)
    if wrong is not None:
        yield wrong
        return
    yield from _limits(value, schema, path)
    if isinstance(value, dict):
        yield from _fields(value, schema, path)
    elif isinstance(value, list):
        items = schema.get("items") or {}
        for number, item in enumerate(value):
            yield from problems(item, items, (*path, number))
        yield from _duplicates(value, schema, path)


def type_problems(value: Any, schema: Schema) -> list[SchemaProblem]:
    """Return the values of a wrong type."""
    return [problem for problem in problems(value, schema) if problem.reason == "FieldValueTypeInvalid"]


def unknown_fields(value: Any, schema: Schema, path: Path = ()) -> Iterator[Path]:
    """Yield the fields of a value that the schema does not have."""
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        more = schema.get("additionalProperties")
        for name, inner in value.items():
            below = (*path, name)
            if name in properties:
                yield from unknown_fields(inner, properties[name], below)
            elif isinstance(more, Mapping):
                yield from unknown_fields(inner, more, below)
            elif not (more or schema.get("x-kubernetes-preserve-unknown-fields") or not properties):
                yield below
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from unknown_fields(item, schema.get("items") or {}, (*path, number))


def known_fields(schema: Schema, path: Path) -> list[str]:
    """Return the field names of the object at a path."""
    for part in path:
        properties = schema.get("properties") or {}
        inner = schema.get("items") if isinstance(part, int) else properties.get(part)
        inner = schema.get("additionalProperties") if inner is None else inner
        schema = inner if isinstance(inner, Mapping) else {}
    return list(schema.get("properties") or ())


def fill_defaults(value: Any, schema: Schema) -> None:
    """Set missing fields that have a default, in all existing objects."""
    if isinstance(value, dict):
        for name, inner in (schema.get("properties") or {}).items():
            if value.get(name) is None and "default" in inner:
                default = inner["default"]
                value[name] = dict(default) if isinstance(default, dict) else default
            elif name in value:
                fill_defaults(value[name], inner)
        more = schema.get("additionalProperties")
        if isinstance(more, Mapping):
            for inner in value.values():
                fill_defaults(inner, more)
    elif isinstance(value, list):
        for item in value:
            fill_defaults(item, schema.get("items") or {})


def shown(path: Path) -> str:
    """Format a path in Kubernetes' notation, e.g. `spec.containers[0].image`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _FIELD_NAME.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{part}]"
    return text


def _wrong_type(value: Any, schema: Schema, path: Path) -> SchemaProblem | None:
    if schema.get("x-kubernetes-int-or-string"):
        expected, right = "integer,string", isinstance(value, int | str) and not isinstance(value, bool)
        right = right or ("pattern" in schema and isinstance(value, float))
    else:
        expected = schema.get("type") or ""
        kinds = _TYPES.get(expected)
        # Booleans are numbers in Python, but not in JSON.
        right = kinds is None or (isinstance(value, kinds) and (expected == "boolean" or value is not True))
        right = right and (expected == "boolean" or value is not False)
        right = right or (expected == "integer" and isinstance(value, float) and value.is_integer())
    if right:
        return None
    name = _NAMES.get(type(value), "null")
    message = f'Invalid value: "{name}": {shown(path)} in body must be of type {expected}: "{name}"'
    return SchemaProblem(path, "FieldValueTypeInvalid", message)


def _limits(value: Any, schema: Schema, path: Path) -> Iterator[SchemaProblem]:
    name = shown(path)
    allowed = schema.get("enum")
    if allowed and value not in allowed:
        supported = ", ".join(f'"{choice}"' for choice in allowed)
        yield SchemaProblem(
            path, "FieldValueNotSupported", f'Unsupported value: "{value}": supported values: {supported}'
        )
    if isinstance(value, int | float) and not isinstance(value, bool):
        for limit, word, broken in (
            ("minimum", "greater", value < schema.get("minimum", value)),
            ("maximum", "less", value > schema.get("maximum", value)),
        ):
            if broken:
                why = f"{name} in body should be {word} than or equal to {schema[limit]}"
                yield SchemaProblem(path, "FieldValueInvalid", f"Invalid value: {value}: {why}")
    if isinstance(value, str):
        yield from _text_limits(value, schema, path)
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            why = f"{name} in body should have at least {schema['minItems']} items"
            yield SchemaProblem(path, "FieldValueInvalid", f"Invalid value: {len(value)}: {why}")
        most = schema.get("maxItems", len(value))
        if len(value) > most:
            why = f"must have at most {most} {'item' if most == 1 else 'items'}"
            yield SchemaProblem(path, "FieldValueTooMany", f"Too many: {len(value)}: {why}")


def _text_limits(value: str, schema: Schema, path: Path) -> Iterator[SchemaProblem]:
    name, pattern = shown(path), schema.get("pattern")
    if pattern and not _matches(pattern, value):
        why = f"{name} in body should match '{pattern}'"
        yield SchemaProblem(path, "FieldValueInvalid", f'Invalid value: "{value}": {why}')
    if len(value) > schema.get("maxLength", len(value)):
        most = schema["maxLength"]
        why = f"may not be more than {most} {'byte' if most == 1 else 'bytes'}"
        yield SchemaProblem(path, "FieldValueTooLong", f"Too long: {why}")
    if len(value) < schema.get("minLength", 0):
        why = f"{name} in body should be at least {schema['minLength']} chars long"
        yield SchemaProblem(path, "FieldValueInvalid", f'Invalid value: "{value}": {why}')
    if schema.get("format") == "date-time" and not _is_time(value):
        why = f'{name} in body must be of type date-time: "{value}"'
        yield SchemaProblem(path, "FieldValueInvalid", f'Invalid value: "{value}": {why}')


def _fields(value: Mapping[str, Any], schema: Schema, path: Path) -> Iterator[SchemaProblem]:
    for name in schema.get("required") or ():
        if value.get(name) is None:
            yield SchemaProblem((*path, name), "FieldValueRequired", "Required value")
    properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, inner in value.items():
        below = properties.get(name, more)
        if isinstance(below, Mapping):
            yield from problems(inner, below, (*path, name))


def _duplicates(value: list[Any], schema: Schema, path: Path) -> Iterator[SchemaProblem]:
    kind = schema.get("x-kubernetes-list-type")
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ()) if kind == "map" else ()
    if kind not in {"map", "set"}:
        return
    properties = (schema.get("items") or {}).get("properties") or {}
    seen: list[Any] = []
    for number, item in enumerate(value):
        if keys and not isinstance(item, dict):
            continue
        named = (
            {key: item.get(key, (properties.get(key) or {}).get("default")) for key in keys} if keys else item
        )
        if named in seen:
            pairs = (
                ",".join(f'"{key}":{_quoted(item_value)}' for key, item_value in named.items())
                if keys
                else ""
            )
            duplicate = f"{{{pairs}}}" if keys else _quoted(item)
            yield SchemaProblem((*path, number), "FieldValueDuplicate", f"Duplicate value: {duplicate}")
        seen.append(named)


def _quoted(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _matches(pattern: str, value: str) -> bool:
    try:
        return re.search(pattern, value) is not None
    except re.error:
        # A Go pattern that Python can't parse refuses nothing.
        return True


def _is_time(value: str) -> bool:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return "T" in value


def forbidden_changes(new: Any, old: Any, schema: Schema, path: Path = ()) -> Iterator[SchemaProblem]:
    """Yield each immutable field that changed; only fields in both objects are compared."""
    if new is None or old is None or new == old:
        return
    for rule in schema.get("x-kubernetes-validations") or ():
        if rule.get("rule") == UNCHANGED:
            kind = schema.get("type", "")
            yield SchemaProblem(
                path, "FieldValueInvalid", f'Invalid value: "{kind}": {rule.get("message", "")}'
            )
    if isinstance(new, dict) and isinstance(old, dict):
        properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, inner in new.items():
            below = properties.get(name, more)
            if isinstance(below, Mapping) and name in old:
                yield from forbidden_changes(inner, old[name], below, (*path, name))
    elif isinstance(new, list) and isinstance(old, list):
        # Items of other list types can't be matched.
        keys = schema.get("x-kubernetes-list-map-keys") or ()
        before = {_identity(item, keys): item for item in old} if keys else {}
        for number, item in enumerate(new):
            if keys:
                earlier = before.get(_identity(item, keys))
                yield from forbidden_changes(item, earlier, schema.get("items") or {}, (*path, number))


def _identity(item: Any, keys: Any) -> tuple[Any, ...]:
    return tuple(str(item.get(key)) for key in keys) if isinstance(item, dict) else ()
