"""Controllers of jobs, and an index of owned objects, which avoids scanning an entire namespace.

Only the controller itself creates the owned objects, so its index of observed and created objects is
complete, even while its watch is behind the store.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

from tui.emulator.kubernetes.controller import Controller, Key, key_of, owner_keys
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.operators.metadata import controller_of, is_controlled_by, is_terminating, uid_of
from tui.emulator.kubernetes.resources import ApiResource, Obj
from tui.emulator.kubernetes.watching import WatchEvent


class Owned:
    """Keys of objects by the uid of their owner. The objects themselves stay in the store."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._keys: dict[str, dict[Key, None]] = {}

    def see(self, event: WatchEvent) -> None:
        """Record a change."""
        if event.type == "DELETED":
            owner = controller_of(event.obj)
            own = self._keys.get(owner["uid"]) if owner is not None else None
            key = key_of(event.resource, event.obj)
            # A new object may already have the name.
            if own is not None and self._objects.find(*key) is None:
                own.pop(key, None)
                if not own and owner is not None:
                    del self._keys[owner["uid"]]
        else:
            self.add(event.resource, event.obj)

    def add(self, resource: ApiResource, obj: Obj) -> None:
        """Record an object."""
        owner = controller_of(obj)
        if owner is not None:
            self._keys.setdefault(owner["uid"], {})[key_of(resource, obj)] = None

    def of(self, owner: Obj, resource: ApiResource) -> list[Obj]:
        """Return the owner's objects of a type, sorted by name."""
        keys = sorted(key for key in self._keys.get(uid_of(owner), ()) if key.resource == resource)
        objs = (self._objects.find(*key) for key in keys)
        return [obj for obj in objs if obj is not None and is_controlled_by(obj, owner)]


class JobController(Controller):
    """Reconciles the jobs of one type and the objects that they own, each under the job's key."""

    manager = ""
    """`managedBy` of this controller's jobs."""

    def __init__(self, objects: Objects, jobs: ApiResource, *dependents: ApiResource) -> None:
        super().__init__(objects, (jobs, *dependents))
        self.jobs = jobs
        self.owned = Owned(objects)

    def keys(self, event: WatchEvent) -> Iterable[Key]:
        if event.resource == self.jobs:
            return (key_of(self.jobs, event.obj),)
        self.owned.see(event)
        return owner_keys(event.obj, self.jobs)

    def reconcile(self, key: Key) -> float | None:
        job = self.objects.find(*key)
        if job is None or is_terminating(job):
            return None
        managed_by = job["spec"].get("managedBy") or (job["spec"].get("runPolicy") or {}).get("managedBy")
        return self.reconcile_job(job) if managed_by in (None, self.manager) else None

    @abstractmethod
    def reconcile_job(self, job: Obj) -> float | None:
        """Reconcile a job of this controller. Return the seconds until the next check, or `None`."""
