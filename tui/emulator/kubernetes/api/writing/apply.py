"""Server-side apply, and the record of who changed which fields."""

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
from tui.emulator.kubernetes.resources import ApiResource
from tui.emulator.kubernetes.times import rfc3339

Obj = dict[str, Any]


@dataclass(slots=True)
class _Manager:
    """An entry of `managedFields`."""

    name: str
    operation: str
    subresource: str
    entry: Obj
    paths: set[Path] = field(default_factory=set)

    def as_entry(self, api_version: str, now: datetime) -> Obj:
        """The entry; the one that was read where it has not changed."""
        if self.entry and from_tree(self.entry.get("fieldsV1") or {}) == self.paths:
            return self.entry
        return {
            "manager": self.name, "operation": self.operation, "apiVersion": api_version,
            "time": rfc3339(now), "fieldsType": "FieldsV1", "fieldsV1": to_tree(self.paths),
            **({"subresource": self.subresource} if self.subresource else {}),
        }  # fmt: skip


def record_update(
    old: Obj | None, new: Obj, manager: str, schema: Schema, now: datetime, *, subresource: str = ""
) -> None:
    """Note in `new` that `manager` owns what differs from `old`.

    What the client gives as managers is taken over, e.g. of kubectl's move to server-side apply.
    """
    given = (new.get("metadata") or {}).get("managedFields")
    before = (old["metadata"].get("managedFields") or []) if old else []
    # An empty list means: forget all managers.
    managers = _read([] if given in ([], [{}]) else given or before)
    was = leaves(old, schema, parents=True) if old else {}
    now_is = leaves(new, schema, parents=True)
    changed = {path for path, value in now_is.items() if path not in was or was[path] != value}
    removed = set(was) - set(now_is)
    if changed or removed or given in ([], [{}]):
        mine = _own(managers, manager, "Update", subresource)
        for one in managers:
            one.paths -= removed if one is mine else removed | changed
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
    """The object after `manager` has applied its configuration, a new one where there is none.

    Raises:
        ApiError: 409 where another manager owns a field that would change, unless `force`.
    """
    wanted = leaves(applied, schema)
    if live is None:
        merged, managers = deepcopy(applied), []
    else:
        managers = _read(live["metadata"].get("managedFields") or [])
        present = leaves(live, schema)
        conflicts = [
            (one, path)
            for one in managers
            if not (one.name == manager and one.operation == "Apply" and one.subresource == subresource)
            for path in sorted(one.paths & wanted.keys())
            if path in present and present[path] != wanted[path]
        ]
        if conflicts and not force:
            raise _conflict(resource, applied, conflicts)
        for one, path in conflicts:
            one.paths.discard(path)
        merged = _merge(live, applied, schema)
    mine = _own(managers, manager, "Apply", subresource)
    others: set[Path] = set().union(*(one.paths for one in managers if one is not mine))
    kept = others | wanted.keys()
    # Whole items first: without its key an item is not found again.
    for path in sorted(mine.paths - wanted.keys(), key=lambda one: (one[-1] != ITEM, -len(one))):
        prefix = path[:-1] if path[-1] == ITEM else path
        if not any(one[: len(prefix)] == prefix for one in kept):
            _remove(merged, schema, prefix, kept)
    mine.paths = set(wanted)
    _write(merged, managers, now)
    return merged


def _read(entries: list[Obj]) -> list[_Manager]:
    return [
        _Manager(
            str(one.get("manager", "")), str(one.get("operation", "")), str(one.get("subresource", "")), one,
            from_tree(one.get("fieldsV1") or {}),
        )
        for one in entries
    ]  # fmt: skip


def _write(obj: Obj, managers: list[_Manager], now: datetime) -> None:
    entries = [one.as_entry(obj["apiVersion"], now) for one in managers if one.paths]
    if entries:
        obj["metadata"]["managedFields"] = entries
    else:
        obj["metadata"].pop("managedFields", None)


def _own(managers: list[_Manager], name: str, operation: str, subresource: str) -> _Manager:
    for one in managers:
        if (one.name, one.operation, one.subresource) == (name, operation, subresource):
            return one
    new = _Manager(name, operation, subresource, {})
    managers.append(new)
    return new


def _conflict(resource: ApiResource, applied: Obj, conflicts: list[tuple[_Manager, Path]]) -> ApiError:
    def sentence(one: _Manager) -> str:
        status = f' with subresource "{one.subresource}"' if one.subresource else ""
        using = f" using {one.entry.get('apiVersion', '')}" if one.operation == "Update" else ""
        return f'conflict with "{one.name}"{status}{using}'

    count = f"{len(conflicts)} conflict{'s' if len(conflicts) > 1 else ''}"
    if len(conflicts) == 1:
        said = f"{sentence(conflicts[0][0])}: {shown(conflicts[0][1])}"
    else:
        said = "\n" + "\n".join(f"- {sentence(one)}: {shown(path)}" for one, path in conflicts)
    return ApiError(
        f"Apply failed with {count}: {said}",
        code=409,
        reason="Conflict",
        details={
            "causes": [
                {"reason": "FieldManagerConflict", "message": sentence(one), "field": shown(path)}
                for one, path in conflicts
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
    found = {item_part(one, keys, schema): deepcopy(one) for one in live}
    for item in applied:
        part = item_part(item, keys, schema)
        found[part] = _merge(found.get(part), item, items) if keys else deepcopy(item)
    return list(found.values())


def _remove(obj: Any, schema: Schema, path: Path, kept: set[Path]) -> None:
    """Remove a field that nobody wants any more, and the objects that it leaves empty."""
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
            same = (n for n, one in enumerate(items) if item_part(one, keys, schema) == part)
            key = next(same, None)
            if key is None:
                return
            inner, schema = items[key], schema.get("items") or {}
        parents.append((obj, key))
        obj = inner
    while parents:
        holder, key = parents.pop()
        del holder[key]
        # An object that someone wants empty stays.
        place = path[: len(parents)]
        if holder or place in kept or (*place, ITEM) in kept:
            return
