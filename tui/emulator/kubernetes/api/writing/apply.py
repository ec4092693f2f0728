"""Server-side apply, and the record of field managers."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tui.emulator.kubernetes.api.writing.fields import (
    ITEM,
    Path,
    Schema,
    child,
    from_tree,
    item_part,
    leaves,
    list_keys,
    shown,
    to_tree,
)
from tui.emulator.kubernetes.errors import ApiError
from tui.emulator.kubernetes.resources import ApiResource, Obj
from tui.emulator.kubernetes.times import rfc3339


@dataclass(slots=True)
class _Manager:
    """An entry of `managedFields`."""

    name: str
    operation: str
    subresource: str
    entry: Obj
    paths: set[Path] = field(default_factory=set)

    def as_entry(self, api_version: str, now: datetime) -> Obj:
        """Return the entry. Unchanged paths leave the original entry in place."""
        if self.entry and from_tree(self.entry.get("fieldsV1") or {}) == self.paths:
            return self.entry
        return {
            "manager": self.name,
            "operation": self.operation,
            "apiVersion": api_version,
            "time": rfc3339(now),
            "fieldsType": "FieldsV1",
            "fieldsV1": to_tree(self.paths),
            **({"subresource": self.subresource} if self.subresource else {}),
        }


def record_update(
    old: Obj | None, new: Obj, manager: str, schema: Schema, now: datetime, *, subresource: str = ""
) -> None:
    """Record in `new` that `manager` owns the fields that differ from `old`.

    Managers that the client sends are preserved, e.g. from kubectl's migration to server-side apply.
    """
    sent = (new.get("metadata") or {}).get("managedFields")
    before = (old["metadata"].get("managedFields") or []) if old else []
    # An empty list resets the managers.
    managers = _read([] if sent in ([], [{}]) else sent or before)
    was = leaves(old, schema, parents=True) if old else {}
    now_is = leaves(new, schema, parents=True)
    changed = {path for path, value in now_is.items() if path not in was or was[path] != value}
    removed = set(was) - set(now_is)
    if changed or removed or sent in ([], [{}]):
        mine = _own(managers, manager, "Update", subresource)
        for owner in managers:
            owner.paths -= removed if owner is mine else removed | changed
        mine.paths |= changed
    _write(new, managers, now)


def apply_configuration(
    resource: ApiResource,
    live: Obj | None,
    applied: Obj,
    *,
    manager: str,
    schema: Schema,
    now: datetime,
    force: bool,
    subresource: str = "",
) -> Obj:
    """Return the object after `manager` applied its configuration, or a new object without `live`. Raises
    ApiError 409 if another manager owns a field that would change, unless `force`."""
    applied_leaves = leaves(applied, schema)
    if live is None:
        merged, managers = deepcopy(applied), []
    else:
        managers = _read(live["metadata"].get("managedFields") or [])
        present = leaves(live, schema)
        conflicts = [
            (owner, path)
            for owner in managers
            if not (owner.name == manager and owner.operation == "Apply" and owner.subresource == subresource)
            for path in sorted(owner.paths & applied_leaves.keys())
            if path in present and present[path] != applied_leaves[path]
        ]
        if conflicts and not force:
            raise _conflict(resource, applied, conflicts)
        for owner, path in conflicts:
            owner.paths.discard(path)
        merged = _merge(live, applied, schema)
    mine = _own(managers, manager, "Apply", subresource)
    others: set[Path] = set().union(*(owner.paths for owner in managers if owner is not mine))
    kept = others | applied_leaves.keys()
    # Remove entire items first: an item without its key can't be found again.
    for path in sorted(
        mine.paths - applied_leaves.keys(), key=lambda owned: (owned[-1] != ITEM, -len(owned))
    ):
        prefix = path[:-1] if path[-1] == ITEM else path
        if not any(kept_path[: len(prefix)] == prefix for kept_path in kept):
            _remove(merged, schema, prefix, kept)
    mine.paths = set(applied_leaves)
    _write(merged, managers, now)
    return merged


def _read(entries: list[Obj]) -> list[_Manager]:
    return [
        _Manager(
            str(entry.get("manager", "")),
            str(entry.get("operation", "")),
            str(entry.get("subresource", "")),
            entry,
            from_tree(entry.get("fieldsV1") or {}),
        )
        for entry in entries
    ]


def _write(obj: Obj, managers: list[_Manager], now: datetime) -> None:
    entries = [manager.as_entry(obj["apiVersion"], now) for manager in managers if manager.paths]
    if entries:
        obj["metadata"]["managedFields"] = entries
    else:
        obj["metadata"].pop("managedFields", None)


def _own(managers: list[_Manager], name: str, operation: str, subresource: str) -> _Manager:
    for manager in managers:
        if (manager.name, manager.operation, manager.subresource) == (name, operation, subresource):
            return manager
    new = _Manager(name, operation, subresource, {})
    managers.append(new)
    return new


def _conflict(resource: ApiResource, applied: Obj, conflicts: list[tuple[_Manager, Path]]) -> ApiError:
    def sentence(manager: _Manager) -> str:
        status = f' with subresource "{manager.subresource}"' if manager.subresource else ""
        using = f" using {manager.entry.get('apiVersion', '')}" if manager.operation == "Update" else ""
        return f'conflict with "{manager.name}"{status}{using}'

    count = f"{len(conflicts)} conflict{'s' if len(conflicts) > 1 else ''}"
    if len(conflicts) == 1:
        summary = f"{sentence(conflicts[0][0])}: {shown(conflicts[0][1])}"
    else:
        summary = "\n" + "\n".join(f"- {sentence(manager)}: {shown(path)}" for manager, path in conflicts)
    return ApiError(
        f"Apply failed with {count}: {summary}",
        code=409,
        reason="Conflict",
        details={
            "causes": [
                {"reason": "FieldManagerConflict", "message": sentence(manager), "field": shown(path)}
                for manager, path in conflicts
            ]
        },
    )


def _merge(live: Any, applied: Any, schema: Schema) -> Any:
    if isinstance(applied, dict) and isinstance(live, dict):
        if schema.get("x-kubernetes-map-type") == "atomic":
            return deepcopy(applied)
        merged = deepcopy(live)
        for key, value in applied.items():
            merged[key] = _merge(live.get(key), value, child(schema, key))
        return merged
    keys = list_keys(schema)
    if keys is None or not isinstance(applied, list) or not isinstance(live, list):
        return deepcopy(applied)
    items = schema.get("items") or {}
    items_by_part = {item_part(live_item, keys, schema): deepcopy(live_item) for live_item in live}
    for item in applied:
        part = item_part(item, keys, schema)
        items_by_part[part] = _merge(items_by_part.get(part), item, items) if keys else deepcopy(item)
    return list(items_by_part.values())


def _remove(obj: Any, schema: Schema, path: Path, kept: set[Path]) -> None:
    """Remove a field without owners, and the objects that become empty."""
    parents: list[tuple[Any, Any]] = []
    for part in path:
        kind, _, rest = part.partition(":")
        key: Any
        if kind == "f":
            if not isinstance(obj, dict) or rest not in obj:
                return
            key, inner, schema = rest, obj[rest], child(schema, rest)
        else:
            keys = list_keys(schema) or ()
            items = obj if isinstance(obj, list) else []
            same = (n for n, item in enumerate(items) if item_part(item, keys, schema) == part)
            key = next(same, None)
            if key is None:
                return
            inner, schema = items[key], schema.get("items") or {}
        parents.append((obj, key))
        obj = inner
    while parents:
        holder, key = parents.pop()
        del holder[key]
        # An object that a manager owns stays, even if empty.
        place = path[: len(parents)]
        if holder or place in kept or (*place, ITEM) in kept:
            return
