"""The store of all objects: in memory, with each change written to SQLite before the call returns.

Calls are synchronous and belong to one event loop, so each is atomic. A returned object belongs to the store:
copy it before changing it.
"""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from tui.emulator.kubernetes.database import ObjectDatabase, Stored
from tui.emulator.kubernetes.errors import (
    ApiAlreadyExists,
    ApiConflict,
    ApiNotFound,
    BadRequest,
    FieldCause,
    Invalid,
)
from tui.emulator.kubernetes.lifetimes import desired, grace_of, is_gone, keep_identity
from tui.emulator.kubernetes.resources import (
    DEFINITIONS,
    EVENTS,
    NAMESPACES,
    PODS,
    RESOURCES,
    ApiResource,
    Obj,
    find,
)
from tui.emulator.kubernetes.times import rfc3339
from tui.emulator.kubernetes.watching import EventBus, EventType, Subscription, WatchEvent

Propagation = Literal["Background", "Foreground", "Orphan"]
FOREGROUND = "foregroundDeletion"
"""Finalizer of an object whose dependents are deleted first; the garbage collector removes it."""
ORPHAN = "orphan"
"""Finalizer of an object whose dependents stay; the garbage collector removes it."""
HISTORY = 20_000
"""Number of changes stored for watches."""
EVENT_HOURS = 1.0
"""Hours for which an Event is stored after its last repetition."""
_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"

Record = Callable[[Obj, Obj | None], None]
"""A function that records in the new object, given the old object, who changed which fields."""
Admission = Callable[[ApiResource, Obj, Obj | None], None]
"""Completes and checks an object before it is stored; receives the stored object. Raises ApiError."""


# Inside the class, `list` is a method.
ObjList = list[Obj]
StoredList = list[Stored]


def _no_record(_new: Obj, _old: Obj | None) -> None:
    """Record nothing: a controller makes the change."""


class Objects:
    """All objects of one API.

    `admit` runs on each create and update. `now` is the clock for times in objects.
    """

    def __init__(
        self,
        path: Path,
        *,
        resources: Iterable[ApiResource] = RESOURCES,
        admit: Admission = lambda _resource, _obj, _old: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        history: int = HISTORY,
    ) -> None:
        self.resources = tuple(resources)
        self.admit = admit
        self.now = now
        self._database = ObjectDatabase(path)
        self._tables: dict[ApiResource, dict[tuple[str, str], Stored]] = {
            resource: {} for resource in self.resources
        }
        self._bus = EventBus(history)
        self._counted: dict[tuple[str, ...], tuple[str, str]] = {}
        """Namespace and name of the Event by event key (`_event_key`)."""
        self.version = 0
        """Newest resource version."""

    def open(self) -> None:
        """Read the stored objects. Raises ObjectDatabaseError."""
        self.version = self._database.open()
        by_type = {
            (resource.group, resource.version, resource.plural): resource for resource in self.resources
        }
        for row in self._database.rows():
            resource = by_type.get((row.group, row.version, row.plural))
            if resource is not None:
                stored = self._database.read(row)
                self._tables[resource][_key(stored.obj)] = stored
        self._bus.start(self.version)
        self._counted = {
            _event_key(stored.obj): _key(stored.obj) for stored in self._tables.get(EVENTS, {}).values()
        }

    def close(self) -> None:
        """End all subscriptions and close the file."""
        self._bus.close()
        self._database.close()

    def resource(self, plural_or_kind: str, group: str = "", version: str = "") -> ApiResource:
        """Return the type with this plural or kind, by default in the preferred version. Raises
        ApiNotFound."""
        resource = find(self.resources, plural_or_kind, group, version)
        if resource is None:
            raise ApiNotFound.unserved()
        return resource

    def get(self, resource: ApiResource, namespace: str, name: str) -> Obj:
        """Return one object; the namespace of a cluster-scoped type is "". Raises ApiNotFound."""
        return self.stored(resource, namespace, name).obj

    def find(self, resource: ApiResource, namespace: str, name: str) -> Obj | None:
        """Return one object, if it exists."""
        stored = self._tables[resource].get((namespace, name))
        return None if stored is None else stored.obj

    def stored(self, resource: ApiResource, namespace: str, name: str) -> Stored:
        """Return one object with its JSON. Raises ApiNotFound."""
        stored = self._tables[resource].get((namespace, name))
        if stored is None:
            raise ApiNotFound.of(resource, name)
        return stored

    def list(
        self, resource: ApiResource, namespace: str = "", labels: Mapping[str, str] | None = None
    ) -> ObjList:
        """Return the objects with these labels, in one or all namespaces, sorted by namespace and name."""
        objs = (stored.obj for stored in self.all_stored(resource, namespace))
        if not labels:
            return list(objs)
        selector = labels.items()
        return [obj for obj in objs if selector <= (obj["metadata"].get("labels") or {}).items()]

    def all_stored(self, resource: ApiResource, namespace: str = "") -> StoredList:
        """Return all objects with their JSON, sorted by namespace and name."""
        table = self._tables[resource]
        return [table[key] for key in sorted(table) if not namespace or key[0] == namespace]

    def counts(self) -> dict[str, int]:
        """Return the number of objects by plural, without empty types and definitions."""
        counts: dict[str, int] = {}
        for resource, table in self._tables.items():
            if table and resource != DEFINITIONS:
                counts[resource.plural] = counts.get(resource.plural, 0) + len(table)
        return counts

    def stored_at(self, resource: ApiResource, namespace: str, version: int) -> StoredList:
        """Return `all_stored` as of an earlier version. Raises ApiExpired if the history is too short."""
        table = dict(self._tables[resource])
        for event in reversed(self._bus.newer(version)):
            if event.resource != resource:
                continue
            if event.old is None:
                del table[_key(event.obj)]
            else:
                earlier = int(event.old["metadata"]["resourceVersion"])
                table[_key(event.old)] = Stored(event.old, _encode(event.old), earlier)
        return [table[key] for key in sorted(table) if not namespace or key[0] == namespace]

    def create(
        self, resource: ApiResource, obj: Obj, *, dry_run: bool = False, record: Record = _no_record
    ) -> Obj:
        """Store a new object with defaults, uid, times and versions. Raises ApiAlreadyExists if the name is
        taken and Invalid if admission refuses the object."""
        new: Obj = json.loads(_encode(obj))
        new.setdefault("apiVersion", resource.api_version)
        new.setdefault("kind", resource.kind)
        meta = new.setdefault("metadata", {})
        if not resource.namespaced:
            meta.pop("namespace", None)
        generated = not meta.get("name") and bool(meta.get("generateName"))
        if generated:
            # The longest prefix that pod names allow.
            meta["name"] = str(meta["generateName"])[:58] + "".join(random.choices(_SUFFIX, k=5))
        self._check_name(resource, meta)
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "selfLink"):
            meta.pop(field, None)
        meta["uid"] = str(uuid.uuid4())
        meta["creationTimestamp"] = rfc3339(self.now())
        if resource.counted:
            meta["generation"] = 1
        self.admit(resource, new, None)
        record(new, None)
        if _key(new) in self._tables[resource]:
            raise ApiAlreadyExists.of(resource, meta["name"])
        return self._save("ADDED", resource, new, None, dry_run=dry_run)

    def update(
        self,
        resource: ApiResource,
        obj: Obj,
        *,
        status: bool = False,
        dry_run: bool = False,
        record: Record = _no_record,
    ) -> Obj:
        """Replace an object, or with `status` only its status; an unchanged object is not stored again.

        If the type has the subresource `status`, only `status=True` changes the status. An object that is
        being deleted disappears with its last finalizer. Raises ApiNotFound if no object has this name,
        ApiConflict if resourceVersion or uid differ from those of the stored object, and Invalid if admission
        refuses the object.
        """
        meta = obj.get("metadata") or {}
        name = str(meta.get("name") or "")
        stored = self.stored(resource, str(meta.get("namespace") or "") if resource.namespaced else "", name)
        version = str(meta.get("resourceVersion") or "")
        if version and version != str(stored.version):
            raise ApiConflict.of(resource, name)
        old = stored.obj
        uid = meta.get("uid")
        if uid and uid != old["metadata"]["uid"]:
            raise ApiConflict.of(resource, name, _other_uid(uid, old))
        new = json.loads(_encode(obj))
        return self._replace(resource, stored, new, status=status, dry_run=dry_run, record=record)

    def change(
        self,
        resource: ApiResource,
        namespace: str,
        name: str,
        edit: Callable[[Obj], None],
        *,
        status: bool = False,
    ) -> Obj:
        """Apply `edit` to a copy of the stored object and store the copy; never conflicts. Raises ApiNotFound
        if no object has this name and Invalid if admission refuses the object."""
        stored = self.stored(resource, namespace, name)
        new = json.loads(stored.raw)
        edit(new)
        return self._replace(resource, stored, new, status=status)

    def delete(
        self,
        resource: ApiResource,
        namespace: str,
        name: str,
        *,
        propagation: Propagation = "Background",
        grace: float | None = None,
        uid: str = "",
        dry_run: bool = False,
    ) -> Obj:
        """Delete an object, or mark it as being deleted while it has finalizers.

        A pod on a node is marked for its grace period (`grace`, by default that of its spec): its kubelet
        stops the containers and deletes it with `grace=0`. Raises ApiNotFound if no object has this name and
        ApiConflict if its uid is not `uid`.
        """
        stored = self.stored(resource, namespace, name)
        old = stored.obj
        if uid and uid != old["metadata"]["uid"]:
            raise ApiConflict.of(resource, name, _other_uid(uid, old))
        new: Obj = json.loads(stored.raw)
        meta = new["metadata"]
        self._mark(resource, new, grace)
        finalizers = [
            finalizer for finalizer in meta.get("finalizers") or [] if finalizer not in {FOREGROUND, ORPHAN}
        ]
        added = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(propagation)
        if added:
            finalizers.append(added)
        meta["finalizers"] = finalizers
        if not finalizers:
            del meta["finalizers"]
        if is_gone(new):
            if resource is not PODS and "deletionTimestamp" not in old["metadata"]:
                # The object is deleted at once, so it was never marked.
                meta.pop("deletionTimestamp")
                meta.pop("deletionGracePeriodSeconds")
            return self._remove(resource, new, old, dry_run=dry_run)
        if new == old:
            return old
        if "generation" in meta and "deletionTimestamp" not in old["metadata"]:
            meta["generation"] += 1
        return self._save("MODIFIED", resource, new, old, dry_run=dry_run)

    def watch(self, resources: Collection[ApiResource], since: int | None = None) -> Subscription:
        """Subscribe to changes of these types from now on, or after version `since`. Raises ApiExpired if the
        history no longer reaches back to `since`."""
        return self._bus.subscribe(resources, since)

    def forget_history(self) -> None:
        """Make watches from an earlier version end with 410, as after a compaction."""
        self._bus.start(self.version)

    def event(
        self,
        about: Obj,
        reason: str,
        message: str,
        *,
        type: Literal["Normal", "Warning"] = "Normal",
        component: str,
        action: str = "",
    ) -> None:
        """Record an Event about an object. A repetition raises the count of the first Event."""
        meta = about["metadata"]
        now = rfc3339(self.now())
        involved = {
            "apiVersion": about.get("apiVersion", ""),
            "kind": about.get("kind", ""),
            "name": meta["name"],
            "namespace": meta.get("namespace", ""),
            "uid": meta.get("uid", ""),
            "resourceVersion": meta.get("resourceVersion", ""),
        }
        event = {
            "metadata": {
                "name": f"{meta['name']}.{time.time_ns():x}",
                "namespace": meta.get("namespace") or "default",
            },
            "involvedObject": {key: value for key, value in involved.items() if value},
            "reason": reason,
            "message": message,
            "type": type,
            "count": 1,
            "source": {"component": component},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "eventTime": None,
            "reportingComponent": component,
            "reportingInstance": "",
            **({"action": action} if action else {}),
        }
        earlier = self._tables[EVENTS].get(self._counted.get(_event_key(event), ("", "")))
        if earlier is None:
            created = self.create(EVENTS, event)
            self._counted[_event_key(created)] = _key(created)
            return

        def again(obj: Obj) -> None:
            obj["count"] = int(obj.get("count") or 1) + 1
            obj["lastTimestamp"] = now

        self.change(EVENTS, *_key(earlier.obj), again)

    def expire_events(self) -> None:
        """Delete the Events without a repetition in the last `EVENT_HOURS`."""
        limit = rfc3339(self.now() - timedelta(hours=EVENT_HOURS))
        for stored in list(self._tables[EVENTS].values()):
            obj = stored.obj
            if (obj.get("lastTimestamp") or obj["metadata"]["creationTimestamp"]) < limit:
                self._counted.pop(_event_key(obj), None)
                self.delete(EVENTS, *_key(obj))

    def _replace(
        self,
        resource: ApiResource,
        stored: Stored,
        new: Obj,
        *,
        status: bool,
        dry_run: bool = False,
        record: Record = _no_record,
    ) -> Obj:
        old = stored.obj
        if new == old:
            return old
        if status and "status" in resource.subresources:
            changed: Obj = json.loads(stored.raw)
            changed.pop("status", None)
            changed.update({"status": new["status"]} if "status" in new else {})
            changed["metadata"].update(
                {key: new["metadata"][key] for key in ("managedFields",) if key in new.get("metadata", {})}
            )
            new = changed
        elif "status" in resource.subresources:
            new.pop("status", None)
            new.update({"status": old["status"]} if "status" in old else {})
        keep_identity(new, old)
        self.admit(resource, new, old)
        record(new, old)
        if new == old:
            return old
        meta = new["metadata"]
        if "generation" in meta and desired(new) != desired(old):
            meta["generation"] += 1
        if is_gone(new):
            return self._remove(resource, new, old, dry_run=dry_run)
        return self._save("MODIFIED", resource, new, old, dry_run=dry_run)

    def _mark(self, resource: ApiResource, obj: Obj, grace: float | None) -> None:
        """Set the deletion time; a second deletion can only bring it forward."""
        meta = obj["metadata"]
        seconds = 0
        if resource is PODS:
            seconds = grace_of(obj, grace)
            earlier = meta.get("deletionGracePeriodSeconds")
            if earlier is not None and seconds >= earlier:
                return
            meta["deletionGracePeriodSeconds"] = seconds
        elif "deletionTimestamp" in meta:
            return
        else:
            meta["deletionGracePeriodSeconds"] = 0
        meta["deletionTimestamp"] = rfc3339(self.now() + timedelta(seconds=seconds))
        if resource is NAMESPACES:
            obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}

    def _save(
        self, type: EventType, resource: ApiResource, obj: Obj, old: Obj | None, *, dry_run: bool
    ) -> Obj:
        if dry_run:
            return obj
        version = self.version + 1
        obj["metadata"]["resourceVersion"] = str(version)
        raw = _encode(obj)
        # The copy shares nothing with the caller's object.
        obj = json.loads(raw)
        key = _key(obj)
        self._database.put(resource, *key, raw, version)
        self.version = version
        self._tables[resource][key] = Stored(obj, raw, version)
        self._bus.publish(WatchEvent(type, resource, obj, old, version, raw))
        return obj

    def _remove(self, resource: ApiResource, obj: Obj, old: Obj, *, dry_run: bool) -> Obj:
        if dry_run:
            return obj
        version = self.version + 1
        obj["metadata"]["resourceVersion"] = str(version)
        key = _key(obj)
        raw = _encode(obj)
        self._database.remove(resource, *key, version)
        self.version = version
        del self._tables[resource][key]
        self._bus.publish(WatchEvent("DELETED", resource, obj, old, version, raw))
        return obj

    def _check_name(self, resource: ApiResource, meta: Obj) -> None:
        if not meta.get("name"):
            cause = FieldCause(
                "metadata.name", "Required value: name or generateName is required", "FieldValueRequired"
            )
            raise Invalid.of(resource, "", [cause])
        if resource.namespaced and not meta.get("namespace"):
            raise BadRequest(f"an empty namespace may not be set during creation of {resource.qualified}")


def _other_uid(uid: str, old: Obj) -> str:
    return f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['metadata']['uid']}"


def _key(obj: Obj) -> tuple[str, str]:
    meta = obj["metadata"]
    return str(meta.get("namespace") or ""), str(meta["name"])


def _encode(obj: Obj) -> bytes:
    # The type comes first because lists of built-in types cut it off.
    ordered = {"kind": obj["kind"], "apiVersion": obj["apiVersion"], **obj} if "kind" in obj else obj
    return json.dumps(ordered, separators=(",", ":"), ensure_ascii=False).encode()


def _event_key(event: Obj) -> tuple[str, ...]:
    """Return the key that repetitions of an Event share."""
    involved = event.get("involvedObject") or {}
    return (
        *(str(involved.get(key) or "") for key in ("kind", "namespace", "name", "uid", "fieldPath")),
        *(str(event.get(key) or "") for key in ("type", "reason", "message", "reportingComponent")),
    )
