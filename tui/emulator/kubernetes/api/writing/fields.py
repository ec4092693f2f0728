"""Fields of an object as paths, and the managers that own them (`metadata.managedFields`).

A path follows `FieldsV1` from its root to a leaf, e.g. `("f:spec", "f:containers", 'k:{"name":"a"}',
"f:image")`. An item of a keyed list has a leaf `.`, and so has an object or keyed list created by an update,
which apply does not own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tui.emulator.kubernetes.resources import Obj

Schema = Mapping[str, Any]
Path = tuple[str, ...]
ITEM = "."
_UNOWNED = {
    "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields",
    "selfLink", "generateName", "deletionTimestamp", "deletionGracePeriodSeconds",
}  # fmt: skip


def leaves(obj: Obj, schema: Schema, *, parents: bool = False) -> dict[Path, Any]:
    """Return every field that a manager can own, with its value; `parents` adds the enclosing objects."""
    fields: dict[Path, Any] = {}
    rest = {key: value for key, value in obj.items() if key not in {"apiVersion", "kind", "metadata"}}
    meta = {key: value for key, value in (obj.get("metadata") or {}).items() if key not in _UNOWNED}
    _collect(rest, schema, (), fields)
    if meta:
        _collect(meta, child(schema, "metadata"), ("f:metadata",), fields)
    fields.pop((), None)
    if parents:
        around = {path[:length] for path in fields for length in range(1, len(path))}
        for path in around:
            # Metadata always exists.
            if not path[-1].startswith("k:") and path != ("f:metadata",):
                fields[*path, ITEM] = True
    return fields


def child(schema: Schema, field: str) -> Schema:
    """Return the schema of an object's field, or an empty schema if the field is unknown."""
    field_schema = (schema.get("properties") or {}).get(field)
    if field_schema is None:
        field_schema = schema.get("additionalProperties")
    return field_schema if isinstance(field_schema, Mapping) else {}


def list_keys(schema: Schema) -> tuple[str, ...] | None:
    """Return the item keys of a list: empty for a set, or `None` for an atomic list."""
    kind = schema.get("x-kubernetes-list-type")
    if kind == "map":
        return tuple(schema.get("x-kubernetes-list-map-keys") or ())
    return () if kind == "set" else None


def item_part(item: Any, keys: tuple[str, ...], schema: Schema) -> str | None:
    """Return the path part of a list item, or `None` if the item lacks its keys."""
    if not keys:
        return f"v:{_json(item)}"
    if not isinstance(item, dict):
        return None
    properties = (schema.get("items") or {}).get("properties") or {}
    defaults = {key: (properties.get(key) or {}).get("default") for key in keys}
    named = {key: item.get(key, defaults[key]) for key in keys}
    named = {key: value for key, value in named.items() if value is not None}
    return f"k:{_json(named)}" if named else None


def _collect(value: Any, schema: Schema, path: Path, fields: dict[Path, Any]) -> None:
    if isinstance(value, dict) and value and schema.get("x-kubernetes-map-type") != "atomic":
        for key, inner in value.items():
            _collect(inner, child(schema, key), (*path, f"f:{key}"), fields)
        return
    keys = list_keys(schema) if isinstance(value, list) else None
    if keys is None or not value:
        fields[path] = value
        return
    for item in value:
        part = item_part(item, keys, schema)
        if part is None:
            fields[path] = value
        elif keys:
            fields[*path, part, ITEM] = True
            _collect(item, schema.get("items") or {}, (*path, part), fields)
        else:
            fields[*path, part] = item


def to_tree(paths: Iterable[Path]) -> Obj:
    """Return `FieldsV1` of these paths."""
    tree: Obj = {}
    for path in sorted(paths):
        node = tree
        for part in path:
            node = node.setdefault(part, {})
    return tree


def from_tree(tree: Mapping[str, Any], path: Path = ()) -> set[Path]:
    """Return the paths of a `FieldsV1`."""
    if not tree:
        return {path} if path else set()
    paths: set[Path] = set()
    for part, inner in tree.items():
        paths |= from_tree(inner if isinstance(inner, Mapping) else {}, (*path, part))
    return paths


def shown(path: Path) -> str:
    """Return a path as messages name it, e.g. `.spec.containers[name="a"].image`."""
    text = ""
    for part in path:
        kind, _, rest = part.partition(":")
        if kind == "f":
            text += f".{rest}"
        elif kind == "k":
            named = json.loads(rest).items()
            text += "[" + ",".join(f"{key}={_json(value)}" for key, value in named) + "]"
        elif kind == "v":
            text += f"[={rest}]"
    return text


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)
