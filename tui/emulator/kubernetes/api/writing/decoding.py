"""Check that a client's object can be read as its type."""

from __future__ import annotations

from collections.abc import Iterator

from tui.domain.kubernetes.schema.check import problems, type_problems
from tui.domain.kubernetes.workloads import fields
from tui.emulator.kubernetes.api import types
from tui.emulator.kubernetes.api.writing.fields import Schema, child
from tui.emulator.kubernetes.errors import BadRequest, Invalid
from tui.emulator.kubernetes.resources import ApiResource, Obj

SHOWN = 30
"""Bytes of an unreadable body that the message quotes."""
_TEXTS = ("labels", "annotations")


def unrecognized(resource: ApiResource, body: bytes, error: Exception) -> BadRequest:
    """Return the error for a body that is not an object."""
    start = body[:SHOWN].decode(errors="replace") + (" ..." if len(body) > SHOWN else "")
    return BadRequest(
        f"the object provided is unrecognized (must be of type {resource.kind}): "
        f"{' '.join(str(error).split())} ({start or '<empty>'})"
    )


def check_type(resource: ApiResource, obj: Obj) -> None:
    """Check that `kind` and `apiVersion` name the type, and fill them in if missing. Raises BadRequest."""
    kind, version = obj.setdefault("kind", resource.kind), obj.setdefault("apiVersion", resource.api_version)
    if (kind, version) != (resource.kind, resource.api_version):
        raise BadRequest(
            f'{kind} in version "{version}" cannot be handled as a {resource.kind} in version '
            f'"{resource.api_version}"'
        )


def check_fields(resource: ApiResource, obj: Obj) -> None:
    """Check that the fields of a built-in type have its types. Raises BadRequest."""
    for why in _type_errors(resource, obj):
        raise BadRequest.of(resource, why)


def check_patched(resource: ApiResource, obj: Obj) -> None:
    """Check type and fields of an object that a patch produced. Raises Invalid."""
    for why in _type_errors(resource, obj):
        raise Invalid.of_patch(why)
    version, kind = obj.get("apiVersion"), obj.get("kind")
    if kind != resource.kind or version != resource.api_version:
        why = f"{version} {kind} is not {resource.api_version} {resource.kind}"
        raise Invalid.of_patch(why)


def check_applied(resource: ApiResource, obj: Obj) -> None:
    """Check that the fields of an apply patch have the types of the schema. Raises BadRequest."""
    schema = types.schema(resource)
    wrong = [f".{problem.field}: {problem.message}" for problem in type_problems(obj, schema)]
    # Some types have no schema of the metadata.
    if not isinstance(obj["metadata"], dict):
        wrong.append(f".metadata: expected map, got &{{{obj['metadata']}}}")
    for problem in wrong:
        meta = fields(obj, "metadata")
        target = f"{meta.get('namespace') or ''}/{meta.get('name') or ''}; {resource.api_version}"
        head = f"failed to create typed patch object ({target}, Kind={resource.kind})"
        raise BadRequest(f"{head}: {problem}")


def _type_errors(resource: ApiResource, obj: Obj) -> Iterator[str]:
    """Yield the errors of a typed decoder. For a custom type it decodes only the metadata, because the schema
    is checked later, field by field."""
    schema: Schema = types.schema(resource)
    if resource.custom:
        obj, schema = {"metadata": obj["metadata"]}, {"properties": {"metadata": child(schema, "metadata")}}
    for field in _TEXTS:
        for key, value in fields(obj, "metadata", field).items():
            if not isinstance(value, str):
                yield f"metadata.{field}: {key} must be of type string"
    for problem in problems(obj, schema):
        quantity = "quantities must match" in problem.message or "'^(\\+|-)?((" in problem.message
        if problem.reason == "FieldValueTypeInvalid" or quantity:
            yield f"{problem.field}: {problem.message}"
