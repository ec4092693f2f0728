"""Schema-based treatment of clients' objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tui.domain.kubernetes.schema.check import Path, shown, unknown_fields
from tui.domain.kubernetes.schema.registry import schema_of
from tui.emulator.kubernetes.api.writing.fields import Schema, child
from tui.emulator.kubernetes.api.writing.patches import MergeKey
from tui.emulator.kubernetes.errors import BadRequest, Invalid
from tui.emulator.kubernetes.resources import NODES, ApiResource, Obj

_NO_SCHEMA: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def schema(resource: ApiResource) -> Schema:
    """Return the type's OpenAPI v3 schema without references."""
    return schema_of(resource.api_version, resource.kind) or _NO_SCHEMA


def merge_key(resource: ApiResource) -> MergeKey:
    """Return how a strategic merge patch treats the lists of a type."""

    def key(path: tuple[str, ...]) -> str | None:
        node = schema(resource)
        for part in path:
            node = child(node.get("items") or node, part)
        if node.get("x-kubernetes-patch-strategy") != "merge":
            return None
        return str(node.get("x-kubernetes-patch-merge-key", ""))

    return key


def drop_unknown_fields(
    resource: ApiResource, obj: Obj, query: Mapping[str, str], *, patched: bool = False
) -> list[str]:
    """Drop the fields that the type does not have and return a warning for each.

    Raises:
        BadRequest: for an unknown field with `fieldValidation=Strict`.
        Invalid: instead, if a patch produced the object (`patched`).
    """
    mode = query.get("fieldValidation") or "Warn"
    unknown = list(unknown_fields(obj, schema(resource)))
    warnings = [f'unknown field "{shown(path)}"' for path in unknown]
    if warnings and mode == "Strict":
        why = f"strict decoding error: {', '.join(warnings)}"
        raise Invalid.of_patch(why) if patched else BadRequest.of(resource, why)
    _drop(obj, unknown)
    return warnings if mode == "Warn" else []


def prepare_create(resource: ApiResource, obj: Obj) -> None:
    """Drop the fields that a client can't set on create."""
    if "status" in resource.subresources and resource != NODES:
        obj.pop("status", None)


def _drop(obj: Any, paths: Iterable[Path]) -> None:
    for *parents, last in paths:
        holder = obj
        for part in parents:
            holder = holder[part]
        del holder[last]
