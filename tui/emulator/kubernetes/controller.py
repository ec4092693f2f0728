"""The base of every controller: a queue of keys, each reconciled alone, again after a failure."""

from __future__ import annotations

import asyncio
import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Collection, Iterable
from typing import Any, Literal, NamedTuple

from tui.emulator.kubernetes.errors import ApiConflict, ApiError
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.resources import ApiResource
from tui.emulator.kubernetes.watching import Obj, WatchEvent

log = logging.getLogger(__name__)

FIRST_DELAY = 0.05
LONGEST_DELAY = 30.0
"""Between two tries of a key whose reconciliation fails; each doubles the delay."""


class Key(NamedTuple):
    """What is reconciled: one object, which may be gone."""

    resource: ApiResource
    namespace: str
    name: str


class Controller(ABC):
    """Brings the world to what its objects say.

    A subclass names the types in `watched`, says in `keys` which keys a change concerns, and does the work in
    `reconcile`. At the start `keys` gets each object that is there as ADDED.
    """

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self._due: dict[Key, float] = {}
        """Keys that wait, with their times."""
        self._failures: dict[Key, int] = {}
        self._changed = asyncio.Event()

    @property
    def name(self) -> str:
        return type(self).__name__

    def report(
        self, about: Obj, reason: str, message: str, *, warning: bool = False, action: str = ""
    ) -> None:
        """Record an Event of this controller about an object."""
        kind: Literal["Normal", "Warning"] = "Warning" if warning else "Normal"
        self.objects.event(about, reason, message, type=kind, component=self.name, action=action)

    @abstractmethod
    def watched(self) -> Collection[ApiResource]:
        """The types whose changes matter."""

    def keys(self, event: WatchEvent) -> Iterable[Key]:
        """The keys that a change concerns: by default the object's own."""
        return (key_of(event.resource, event.obj),)

    @abstractmethod
    def reconcile(self, key: Key) -> float | Awaitable[float | None] | None:
        """Do what is to do for one key; the seconds after which to look again, if any.

        It may be a coroutine; while it waits, no other key of this controller is reconciled.
        """

    async def started(self) -> None:  # noqa: B027 - most have nothing to take up
        """Called once before the first key, e.g. to take up what an ended server has left."""

    def enqueue(self, key: Key, delay: float = 0.0) -> None:
        """Reconcile a key after `delay` seconds, or earlier where it waits already."""
        at = asyncio.get_running_loop().time() + delay
        self._due[key] = min(at, self._due.get(key, at))
        self._changed.set()

    async def run(self) -> None:
        """Run until cancelled."""
        resources = tuple(self.watched())
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
            log.exception("%s can't say what a change of %s concerns", self.name, event.resource.plural)
            return
        for key in keys:
            self.enqueue(key)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            now = loop.time()
            ready = [key for key, at in self._due.items() if at <= now]
            for key in ready:
                # One that became due again meanwhile has been done with the newest state.
                if self._due.pop(key, None) is not None:
                    await self._do(key)
                    # Others get their turn: a reconciliation seldom waits for anything.
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
            if not isinstance(error, ApiConflict):
                log.warning(
                    "%s failed for %s %s/%s and tries again in %.2f s: %s",
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
    """The key of an object."""
    meta = obj["metadata"]
    return Key(resource, str(meta.get("namespace") or ""), str(meta["name"]))


def owner_keys(obj: Obj, resource: ApiResource) -> list[Key]:
    """The keys of an object's owners of one type."""
    meta = obj["metadata"]
    namespace = str(meta.get("namespace") or "") if resource.namespaced else ""
    return [
        Key(resource, namespace, str(owner["name"]))
        for owner in meta.get("ownerReferences") or []
        if owner.get("kind") == resource.kind and owner.get("apiVersion") == resource.api_version
    ]
