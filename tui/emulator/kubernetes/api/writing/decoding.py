"""What a client sends as an object: whether it can be read as its type, in the API server's words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import yaml

from tui.domain.kubernetes.schema.check import Path, problems
from tui.emulator.kubernetes.api import types
from tui.emulator.kubernetes.errors import BadRequest, FieldCause, Invalid
from tui.emulator.kubernetes.resources import ApiResource

Obj = dict[str, Any]
SHOWN = 30
"""Bytes of a body that can't be read which the message shows."""
_WORDS = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}
_TYPES = {"integer": "int32", "string": "string", "boolean": "bool", "object": "object", "array": "[]"}
_TYPE_META = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_SCHEME = "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"
_TEXTS = ("labels", "annotations")


def unrecognized(resource: ApiResource, body: bytes, error: Exception) -> BadRequest:
    """A body that is no object of any type."""
    if isinstance(error, yaml.MarkedYAMLError):
        line = error.problem_mark.line if error.problem_mark is not None else 1
        why = f"yaml: line {max(1, line)}: {error.problem}"
    else:
        why = f"couldn't get version/kind; json parse error: {json_problem(body)}"
    return BadRequest(
        f"the object provided is unrecognized (must be of type {resource.kind}): {why} ({_summary(body)})"
    )


def json_problem(body: bytes) -> str:
    """What Go's decoder says of a text that is no JSON object."""
    try:
        found = json.loads(body)
    except json.JSONDecodeError as error:
        if error.pos >= len(error.doc.rstrip()) or error.doc.count("{") > error.doc.count("}"):
            return "unexpected end of JSON input"
        return f"invalid character {error.doc[error.pos]!r} looking for beginning of value"
    except ValueError:
        return "invalid character looking for beginning of value"
    return f"json: cannot unmarshal {_WORDS[type(found)]} into Go value of type {_TYPE_META}"


def check_type(resource: ApiResource, obj: Obj) -> None:
    """The type that an object says it has. Raises BadRequest."""
    kind, version = obj.setdefault("kind", resource.kind), obj.setdefault("apiVersion", resource.api_version)
    if (kind, version) == (resource.kind, resource.api_version):
        return
    given = version.rpartition("/")[2]
    if resource.custom or kind == resource.kind:
        raise BadRequest(
            f'{kind} in version "{given}" cannot be handled as a {resource.kind}: no kind "{kind}" is '
            f'registered for version "{version}" in scheme "{_SCHEME}"'
        )
    group = resource.group.partition(".")[0] or "core"
    raise BadRequest(
        f'{kind} in version "{given}" cannot be handled as a {resource.kind}: converting ({given}.{kind}) to '
        f"({group}.{resource.kind}): unknown conversion"
    )


def check_fields(resource: ApiResource, obj: Obj) -> None:
    """That the fields of a built-in type have the types that Go decodes. Raises BadRequest."""
    if resource.custom:
        return
    for why in _misfits(resource, obj):
        raise BadRequest(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {why}'
        )


def check_patched(resource: ApiResource, obj: Obj) -> None:
    """The same of an object that a patch has made. Raises Invalid."""
    if not resource.custom:
        for why in _misfits(resource, obj):
            raise bad_patch(obj, why)
    if obj["kind"] != resource.kind or obj["apiVersion"] != resource.api_version:
        given, group = obj["apiVersion"].rpartition("/")[2], resource.group.partition(".")[0] or "core"
        why = f"converting ({given}.{obj['kind']}) to ({group}.{resource.kind}): unknown conversion"
        raise bad_patch(obj, why)


def bad_patch(obj: Any, why: str) -> Invalid:
    """A patch whose result can't be read; the message has all of it."""
    shown = json.dumps(json.dumps(obj, separators=(",", ":"), sort_keys=True))
    cause = FieldCause("patch", f"Invalid value: {shown}: {why}")
    return Invalid(f' "" is invalid: {cause.field}: {cause.message}', details={"causes": [cause.as_dict()]})


def _misfits(resource: ApiResource, obj: Obj) -> Iterator[str]:
    schema = types.schema(resource)
    for text in _TEXTS:
        for value in (obj.get("metadata") or {}).get(text, {}).values():
            if not isinstance(value, str):
                yield _misfit(resource, ("metadata", text), value, "string")
    for found in problems(obj, schema):
        if found.reason == "FieldValueTypeInvalid":
            value, wanted = _at(obj, found.path), found.message.partition("of type ")[2].partition(":")[0]
            yield _misfit(resource, found.path, value, _TYPES.get(wanted, wanted))
        elif "quantities must match" in found.message or "'^(\\+|-)?((" in found.message:
            yield _QUANTITY


def _misfit(resource: ApiResource, path: Path, value: Any, wanted: str) -> str:
    names = [part for part in path if isinstance(part, str)]
    # Of a map Go names the field, not the key.
    above = _schema_at(types.schema(resource), names[:-1])
    field = ".".join(names[:-1] if isinstance(above.get("additionalProperties"), dict) else names)
    word = _WORDS.get(type(value), "value")
    return f"json: cannot unmarshal {word} into Go struct field {resource.kind}.{field} of type {wanted}"


def _schema_at(schema: Any, names: list[str]) -> Any:
    for name in names:
        schema = schema.get("items") or schema
        schema = (schema.get("properties") or {}).get(name) or schema.get("additionalProperties") or {}
    return schema if isinstance(schema, dict) else {}


def _at(obj: Any, path: Path) -> Any:
    for part in path:
        obj = obj[part]
    return obj


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    start = body[:SHOWN]
    text = start.decode(errors="replace") if body.startswith(b"{") else start.hex()
    return f"{text} ..." if len(body) > SHOWN else text
