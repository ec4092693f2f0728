"""Base class of all controllers: a queue of keys, each reconciled alone and retried after a failure."""

from __future__ import annotations

import asyncio
import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Collection, Iterable
from typing import Any, Literal, NamedTuple

from tui.emulator.kubernetes.errors import ApiConflict, ApiError
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.resources import ApiResource, Obj
from tui.emulator.kubernetes.watching import WatchEvent

log = logging.getLogger(__name__)

FIRST_DELAY = 0.05
LONGEST_DELAY = 30.0
"""Maximum delay in seconds between tries of a failing key; each failure doubles the delay."""


class Key(NamedTuple):
    """Identifies the object to reconcile, which may already be deleted."""

    resource: ApiResource
    namespace: str
    name: str


class Controller(ABC):
    """Reconciles the state of the cluster with its objects.

    A subclass names the types in `watched`, maps a change to keys in `keys`, and does the work in
    `reconcile`. At the start `keys` receives each existing object as ADDED.
    """

    name = ""
    """Component of the controller's Events; by default the class name."""
    refused = "FailedCreate"
    """Reason of the Event about an object whose parts the API refuses."""

    def __init__(self, objects: Objects, watched: Collection[ApiResource] = ()) -> None:
        self.objects = objects
        self.watched = watched
        """Types whose changes the controller reacts to."""
        self.name = self.name or type(self).__name__
        self._due: dict[Key, float] = {}
        """Event-loop time at which each waiting key is due."""
        self._failures: dict[Key, int] = {}
        self._changed = asyncio.Event()

    def report(
        self, about: Obj, reason: str, message: str, *, warning: bool = False, action: str = ""
    ) -> None:
        """Record an Event of this controller about an object."""
        kind: Literal["Normal", "Warning"] = "Warning" if warning else "Normal"
        self.objects.event(about, reason, message, type=kind, component=self.name, action=action)

    def keys(self, event: WatchEvent) -> Iterable[Key]:
        """Return the keys to reconcile after a change; by default the changed object's own key."""
        return (key_of(event.resource, event.obj),)

    @abstractmethod
    def reconcile(self, key: Key) -> float | Awaitable[float | None] | None:
        """Reconcile one key and return the seconds until the next check, or `None` if no check is due.

        The method may be a coroutine. While it waits, the controller reconciles no other key.
        """

    async def started(self) -> None:  # noqa: B027 - optional hook
        """Prepare before the first key, e.g. resume the work of a stopped server."""

    def enqueue(self, key: Key, delay: float = 0.0) -> None:
        """Reconcile a key after `delay` seconds, or earlier if it is already due."""
        at = asyncio.get_running_loop().time() + delay
        self._due[key] = min(at, self._due.get(key, at))
        self._changed.set()

    async def run(self) -> None:
        """Run until cancelled."""
        resources = tuple(self.watched)
        changes = self.objects.watch(resources)
        try:
            await self.started()
            for resource in resources:
                for obj in self.objects.list(resource):
                    self._enqueue_all(WatchEvent("ADDED", resource, obj))
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow(changes), name=f"{self.name}: changes")
                tasks.create_task(self._work(), name=f"{self.name}: work")
        finally:
            changes.close()

    async def _follow(self, changes: Any) -> None:
        async for event in changes:
            self._enqueue_all(event)

    def _enqueue_all(self, event: WatchEvent) -> None:
        try:
            keys = list(self.keys(event))
        except Exception:
            log.exception("%s can't map a change of %s to keys", self.name, event.resource.plural)
            return
        for key in keys:
            self.enqueue(key)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            now = loop.time()
            ready = [key for key, at in self._due.items() if at <= now]
            for key in ready:
                # The reconciliation below reads the newest state, also for a key that became due again.
                if self._due.pop(key, None) is not None:
                    await self._do(key)
                    # Let other tasks run: a reconciliation seldom awaits anything.
                    await asyncio.sleep(0)
            if ready:
                continue
            self._changed.clear()
            next_at = min(self._due.values(), default=None)
            try:
                async with asyncio.timeout(None if next_at is None else max(0.0, next_at - loop.time())):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def _do(self, key: Key) -> None:
        try:
            outcome = self.reconcile(key)
            again = await outcome if inspect.isawaitable(outcome) else outcome
        except Exception as error:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            delay = min(FIRST_DELAY * 2 ** (failures - 1), LONGEST_DELAY)
            expected = isinstance(error, ApiError)
            about = self.objects.find(*key)
            if expected and about is not None and not isinstance(error, ApiConflict):
                self.report(about, self.refused, str(error), warning=True, action="Reconciling")
            if not isinstance(error, ApiConflict):
                log.warning(
                    "%s failed for %s %s/%s and is retried in %.2f s: %s",
                    self.name,
                    key.resource.kind,
                    key.namespace,
                    key.name,
                    delay,
                    error,
                    exc_info=None if expected else error,
                )
            self.enqueue(key, delay)
            return
        self._failures.pop(key, None)
        if again is not None:
            self.enqueue(key, again)


def key_of(resource: ApiResource, obj: Obj) -> Key:
    """Return the key of an object."""
    meta = obj["metadata"]
    return Key(resource, str(meta.get("namespace") or ""), str(meta["name"]))


def owner_keys(obj: Obj, resource: ApiResource) -> list[Key]:
    """Return the keys of an object's owners of one type."""
    meta = obj["metadata"]
    namespace = str(meta.get("namespace") or "") if resource.namespaced else ""
    return [
        Key(resource, namespace, str(owner["name"]))
        for owner in meta.get("ownerReferences") or []
        if owner.get("kind") == resource.kind and owner.get("apiVersion") == resource.api_version
    ]
