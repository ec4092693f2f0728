"""The language of the tables in `data/*.schema`, and its conversion to OpenAPI v3.

A line without an indent names a type; `kind` before the name marks an object of the API. Each following
indented line is a field::

    NAME[!]: TYPE [LIMITS] [= DEFAULT] [# DESCRIPTION]

`!` marks a required field, `*` stands for any other field. TYPE is `string`, `int`, `int64`, `number`,
`boolean`, `quantity`, `intstr` (a number or a text), `time`, `any`, `object` (with any fields), values such
as `A|B`, the name of a type, `{TYPE}` (a map), or `[TYPE]` (a list). After a list, `by FIELD,…` names the
keys of its items and `set` means that items are unique; after a map, `atomic` means that it is one value.
LIMITS are `>=N` and `<=N` of a number, `length>=N` and `length<=N` of a text, `items>=N` and `items<=N` of a
list, and `fixed` with an optional "WHY": an object that has the field can't change it. DEFAULT is JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Schema = dict[str, Any]
_QUANTITY = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"  # noqa: E501
UNCHANGED = "self == oldSelf"
"""The CEL rule of an immutable field."""
_EITHER = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
_SIMPLE: Mapping[str, Schema] = {
    "string": {"type": "string"},
    "int": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "time": {"type": "string", "format": "date-time"},
    "quantity": {**_EITHER, "pattern": _QUANTITY},
    "intstr": _EITHER,
    "any": {"x-kubernetes-preserve-unknown-fields": True},
    "object": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
_FIELD = re.compile(r"  (?P<name>[\w*-]+)(?P<required>!?): (?P<rest>.+)")
_DEFAULT = re.compile(r" = (?P<default>.+)")
_LIMIT = re.compile(r" (?P<of>length|items|)(?P<which>[<>]=)(?P<number>-?\d+)")
_LIMITS = {
    ">=": "minimum", "<=": "maximum", "length>=": "minLength", "length<=": "maxLength",
    "items>=": "minItems", "items<=": "maxItems",
}  # fmt: skip
_BY = re.compile(r" by (?P<keys>[\w,]+)")
_FIXED = re.compile(r' fixed(?: "(?P<why>[^"]+)")?')


@dataclass(frozen=True, slots=True)
class SchemaTable:
    """A parsed table: the fields of each type, and the types of API objects."""

    types: dict[str, Schema] = field(default_factory=dict)
    """Schemas whose references are `{"$ref": NAME}`."""
    kinds: tuple[str, ...] = ()


class TableError(ValueError):
    """A line of a table has a syntax error."""


def parse(text: str) -> SchemaTable:
    """Parse a table. Raises TableError with the line number."""
    types: dict[str, Schema] = {}
    kinds: list[str] = []
    current: Schema = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith(" "):
            kind, _, name = line.rpartition("kind ")
            if kind or line.startswith("kind "):
                kinds.append(name)
            current = types[name] = {"type": "object", "properties": {}}
            continue
        match = _FIELD.fullmatch(line.rstrip())
        if match is None:
            raise TableError(f"line {number}: {line!r} must be a field")
        try:
            _add(current, match["name"], bool(match["required"]), match["rest"])
        except ValueError as error:
            raise TableError(f"line {number}: {error}") from error
    return SchemaTable(types, tuple(kinds))


def _add(schema: Schema, name: str, required: bool, rest: str) -> None:
    rest, _, description = rest.partition(" # ")
    default = _DEFAULT.search(rest)
    if default:
        rest = rest[: default.start()]
    fixed = _FIXED.search(rest)
    field_schema = _type(_FIXED.sub("", rest).strip())
    if fixed:
        why = fixed["why"] or "field is immutable"
        field_schema["x-kubernetes-validations"] = [{"rule": UNCHANGED, "message": why}]
    if default:
        field_schema["default"] = json.loads(default["default"])
    if description:
        field_schema["description"] = description.strip()
    if name == "*":
        schema["x-kubernetes-preserve-unknown-fields"] = True
        return
    schema["properties"][name] = field_schema
    if required:
        schema.setdefault("required", []).append(name)


def _type(text: str) -> Schema:
    if text.startswith(("[", "{")):
        end = _closing(text)
        inner, rest = _type(text[1:end].strip()), text[end + 1 :]
        if text[0] == "{":
            atomic = {"x-kubernetes-map-type": "atomic"} if rest.strip() == "atomic" else {}
            return {"type": "object", "additionalProperties": inner, **atomic}
        return {"type": "array", "items": inner, **_list_type(rest), **_limits(rest)}
    limits = _limits(text)
    name = text.split(" ", maxsplit=1)[0]
    if name in _SIMPLE:
        return {**_SIMPLE[name], **limits}
    if "|" in name:
        return {"type": "string", "enum": name.split("|")}
    if not name[:1].isupper():
        raise ValueError(f"{name!r} must be a type")
    return {"$ref": name}


def _limits(text: str) -> Schema:
    return {
        _LIMITS[match["of"] + match["which"]]: int(match["number"]) for match in _LIMIT.finditer(f" {text}")
    }


def _closing(text: str) -> int:
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter in "[{") - (letter in "]}")
        if depth == 0:
            return place
    raise ValueError(f"{text!r} must have an end")


def _list_type(rest: str) -> Schema:
    by = _BY.search(rest)
    if by:
        keys = by["keys"].split(",")
        return {
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": keys,
            "x-kubernetes-patch-merge-key": keys[0],
            "x-kubernetes-patch-strategy": "merge",
        }
    if rest.split()[:1] == ["set"]:
        return {"x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge"}
    return {"x-kubernetes-list-type": "atomic"}


def replace_references(schema: Schema, replaced: Callable[[str], Schema]) -> Schema:
    """Return a copy in which `replaced(NAME)` replaces each `{"$ref": NAME}`."""
    if "$ref" in schema:
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        target = replaced(schema["$ref"])
        if beside and "$ref" in target:
            # Keys beside a reference are ignored.
            target = {"allOf": [target]}
        return {**target, **beside} if beside else target
    copy = dict(schema)
    if "properties" in copy:
        copy["properties"] = {
            name: replace_references(inner, replaced) for name, inner in copy["properties"].items()
        }
    for key in ("items", "additionalProperties"):
        if isinstance(copy.get(key), dict):
            copy[key] = replace_references(copy[key], replaced)
    return copy
