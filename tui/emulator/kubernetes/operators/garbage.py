"""The garbage collector: deletes dependents before (Foreground) or after (Background) their owner."""

from __future__ import annotations

from collections.abc import Iterable

from tui.emulator.kubernetes.controller import Controller, Key, key_of
from tui.emulator.kubernetes.errors import ApiNotFound
from tui.emulator.kubernetes.objects import FOREGROUND, ORPHAN, Objects
from tui.emulator.kubernetes.operators import store
from tui.emulator.kubernetes.operators.metadata import is_terminating, uid_of
from tui.emulator.kubernetes.resources import EVENTS, ApiResource, Obj
from tui.emulator.kubernetes.watching import WatchEvent


class GarbageCollector(Controller):
    """Deletes the objects whose owners are gone, and releases owners that wait for dependents."""

    name = "garbage-collector"

    def __init__(self, objects: Objects) -> None:
        super().__init__(objects, [resource for resource in objects.resources if resource != EVENTS])
        self._owned: dict[str, set[Key]] = {}
        """Objects that may reference an owner, by owner uid."""

    def keys(self, event: WatchEvent) -> Iterable[Key]:
        key, uid = key_of(event.resource, event.obj), uid_of(event.obj)
        references = event.obj["metadata"].get("ownerReferences") or ()
        for reference in references:
            owned = self._owned.setdefault(reference["uid"], set())
            if event.type == "DELETED":
                owned.discard(key)
            else:
                owned.add(key)
        if event.type == "DELETED":
            owners = [self._key_of_owner(key, reference) for reference in references]
            return [*self._owned.pop(uid, ()), *(owner for owner in owners if owner)]
        if is_terminating(event.obj):
            return [key, *self._owned.get(uid, ())]
        return [key] if references else []

    def reconcile(self, key: Key) -> float | None:
        obj = self.objects.find(key.resource, key.namespace, key.name)
        if obj is None:
            return None
        if is_terminating(obj):
            self._release(key, obj)
        else:
            self._collect(key, obj)
        return None

    def _collect(self, key: Key, obj: Obj) -> None:
        """Delete an object that has no owners left; otherwise drop its references to deleted owners."""
        references = obj["metadata"].get("ownerReferences") or []
        owners = [self._owner(key, reference) for reference in references]
        if not references or None in owners:  # an owner of an unknown type may exist
            return
        gone = [reference for reference, owner in zip(references, owners, strict=True) if owner == {}]
        waiting = [owner for owner in owners if owner and FOREGROUND in _finalizers(owner)]
        if len(gone) + len(waiting) == len(references):
            # Delete the object's dependents first if its owner waits for all of them.
            propagation = "Foreground" if waiting and self._dependents(obj) else "Background"
            store.delete(
                self.objects, key.resource, key.namespace, key.name, uid=uid_of(obj), propagation=propagation
            )
        elif gone:
            left = [reference for reference in references if reference not in gone]
            store.change(
                self.objects,
                key.resource,
                obj,
                lambda stored: stored["metadata"].update(ownerReferences=left),
            )

    def _release(self, key: Key, obj: Obj) -> None:
        """Remove the finalizer of an object whose dependents are gone or orphaned."""
        finalizers = _finalizers(obj)
        dependents = self._dependents(obj)
        if ORPHAN in finalizers:
            for resource, dependent in dependents:
                _forget_owner(self.objects, resource, dependent, uid_of(obj))
            store.remove_finalizer(self.objects, key.resource, obj, ORPHAN)
        elif FOREGROUND in finalizers:
            blocking = [owned for _, owned in dependents if _blocks(owned, uid_of(obj))]
            if not blocking:
                store.remove_finalizer(self.objects, key.resource, obj, FOREGROUND)

    def _dependents(self, owner: Obj) -> list[tuple[ApiResource, Obj]]:
        dependents = []
        for key in sorted(self._owned.get(uid_of(owner), ()), key=str):
            obj = self.objects.find(key.resource, key.namespace, key.name)
            references = (obj or {"metadata": {}})["metadata"].get("ownerReferences") or ()
            if obj is not None and any(reference["uid"] == uid_of(owner) for reference in references):
                dependents.append((key.resource, obj))
        return dependents

    def _key_of_owner(self, key: Key, reference: Obj) -> Key | None:
        group, _, version = str(reference["apiVersion"]).rpartition("/")
        try:
            resource = self.objects.resource(reference["kind"], group, version)
        except ApiNotFound:
            return None
        return Key(resource, key.namespace if resource.namespaced else "", reference["name"])

    def _owner(self, key: Key, reference: Obj) -> Obj | None:
        """Return the owner, an empty object if it was deleted, or None if its type is unknown."""
        where = self._key_of_owner(key, reference)
        if where is None:
            return None
        owner = self.objects.find(where.resource, where.namespace, where.name)
        return owner if owner is not None and uid_of(owner) == reference["uid"] else {}


def _finalizers(obj: Obj) -> list[str]:
    finalizers: list[str] = obj["metadata"].get("finalizers") or []
    return finalizers


def _blocks(obj: Obj, owner: str) -> bool:
    references = obj["metadata"].get("ownerReferences") or ()
    return any(reference["uid"] == owner and reference.get("blockOwnerDeletion") for reference in references)


def _forget_owner(objects: Objects, resource: ApiResource, obj: Obj, owner: str) -> None:
    def edit(stored: Obj) -> None:
        references = stored["metadata"].get("ownerReferences") or ()
        stored["metadata"]["ownerReferences"] = [
            reference for reference in references if reference["uid"] != owner
        ]
        if not stored["metadata"]["ownerReferences"]:
            del stored["metadata"]["ownerReferences"]

    store.change(objects, resource, obj, edit)
