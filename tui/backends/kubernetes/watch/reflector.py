"""Mirrors a list of objects locally: lists the objects, then watches.

The copy is complete up to a point at which the server has delivered everything: a list, a bookmark, and the
end of a watch that the server itself ends. A broken watch resumes at the last of these points, and events
older than the known state of their object are ignored. An expired resourceVersion (410) starts a new list.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from tui.backends.errors import BackendError, PermissionDenied, Unauthenticated
from tui.backends.kubernetes.connection import backoff
from tui.backends.kubernetes.errors import Expired, from_status
from tui.backends.kubernetes.fields import mapping
from tui.backends.kubernetes.watch.source import ApiSource

LOG = logging.getLogger(__name__)
T = TypeVar("T")
Obj = Mapping[str, Any]
PAGE = 250
"""Page size. Parsing 250 objects takes about 10 ms, too short to delay a key press noticeably."""
WATCH_SECONDS = 240, 300
"""Range of the duration of a watch in seconds: random, so that watches don't reconnect together."""
SHORT = 1.0
"""Duration in seconds below which an ended watch is not reopened at once, whatever ended it."""
MOST_WAIT, MOST_WAIT_DENIED = 8.0, 60.0
ILL_TYPED = (AttributeError, TypeError, ValueError, LookupError, ArithmeticError)
"""Errors of reading an object whose fields do not have the types of their definition."""
RESTARTS = 3
"""Number of paged lists tried while pages expire. After that, the list is read as one page."""


class Reflector(Generic[T]):
    """Mirrors the objects while `run` runs. The reflector calls `changed` with the key (`namespace/name`) of
    each changed object.

    `reduce` returns the part of an object to store, or None to drop the object. Use it only in the event
    loop.
    """

    def __init__(
        self,
        title: str,
        source: ApiSource,
        reduce: Callable[[Obj], T | None],
        changed: Callable[[str], None],
        *,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        last: Callable[[Obj], None] = lambda _obj: None,
    ) -> None:
        """Accept `last`, which is called with the last state of a deleted object before `changed`."""
        self.title = title
        self.objects: dict[str, T] = {}
        self.synced = asyncio.Event()
        """Set once all objects have been listed."""
        self.error: BackendError | None = None
        """The reason why the copy is not up to date."""
        self.read_at: datetime | None = None
        """Time at which the copy last equalled the server's list; see `as_of`."""
        self.unreadable: dict[str, str] = {}
        """Why objects can't be read, by key."""
        self.lists = 0
        """Number of completed lists."""
        self._source = source
        source.opened = self._opened
        self._reduce = reduce
        self.changed = changed
        self._pause = pause
        self._last = last
        self._settled = asyncio.Event()
        self._versions: dict[str, int] = {}
        self._deleted: set[str] = set()
        """Keys of deleted objects in `_versions`. These keys prevent an older event from restoring a deleted
        object."""
        self._point, self._point_number = "", 0
        """The resourceVersion up to which everything has been delivered."""
        self._newest = ""
        self._failures = 0
        self._watching = False

    @property
    def live(self) -> bool:
        """Whether the copy is complete and up to date."""
        return self._watching and self.synced.is_set()

    @property
    def as_of(self) -> datetime | None:
        """The time as of which the copy is valid. While a watch is open, this is the current time."""
        return datetime.now(UTC) if self._watching else self.read_at

    async def settled(self, seconds: float) -> None:
        """Wait for at most `seconds` until all objects have been listed or can't be listed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._settled.wait()

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            began = time.monotonic()
            broke: BackendError | None = None
            try:
                if not self._point:
                    await self._list()
                await self._watch()
            except Expired:
                self._point = ""
            except BackendError as error:
                broke = error
            except Exception as error:
                # A bug or a malformed object must not end the watch: the console would appear up to date.
                LOG.exception("the watch of %s failed", self.title)
                self._point = ""
                broke = BackendError(f"Can't watch the {self.title}: {type(error).__name__}: {error}")
            lasted = self._watching and time.monotonic() - began >= SHORT
            self._watching = False
            await self._pause(self._wait(lasted, broke))

    def _wait(self, lasted: bool, broke: BackendError | None) -> float:
        """Return the seconds before the next attempt, after a watch that lasted or failed."""
        if lasted:
            # A broken stream counts as a failure only if it can't be reopened.
            self._failures = 0
            return backoff(0) if broke else 0.0
        self._failures += 1
        self.error = broke or self.error
        if self.error is not None:
            self._settled.set()
        denied = isinstance(broke, PermissionDenied | Unauthenticated)
        return backoff(self._failures, most=MOST_WAIT_DENIED if denied else MOST_WAIT)

    # Listing

    async def _list(self) -> None:
        """Copy all objects, page by page, then drop those on no page."""
        for attempt in range(RESTARTS + 1):
            try:
                await self._pages(PAGE if attempt < RESTARTS else 0)
            except Expired:
                if attempt == RESTARTS:
                    raise
            else:
                return

    async def _pages(self, limit: int) -> None:
        token, versions = "", dict[str, int]()
        while True:
            page = await self._source.page(limit, token)
            for obj in page["items"]:
                key, version = _identity(obj)
                versions[key] = version
                # Unchanged objects are not converted again. Most objects of a later list are unchanged.
                if version and self._versions.get(key) == version and key not in self._deleted:
                    continue
                self._keep(key, obj)
            metadata = mapping(page.get("metadata"))
            token = str(metadata.get("continue") or "")
            if not token:
                break
        self.unreadable = {key: why for key, why in self.unreadable.items() if key in versions}
        for key in self.objects.keys() - versions.keys():
            del self.objects[key]
            self.changed(key)
        self._versions, self._deleted = versions, set()
        self._reach(str(metadata.get("resourceVersion") or ""))
        self.lists += 1
        self._well()
        self.synced.set()
        self._settled.set()

    # Watching

    async def _watch(self) -> None:
        self._newest = self._point
        async with aclosing(self._source.events(self._point, random.randint(*WATCH_SECONDS))) as events:
            async for event in events:
                self._take(event)
        # The server ended the watch after it delivered everything.
        if self._watching:
            self._reach(self._newest)

    def _opened(self) -> None:
        self._watching = True
        self._well()

    def _take(self, event: Obj) -> None:
        kind, obj = event.get("type"), mapping(event.get("object"))
        if not self._watching:
            self._opened()
        if kind == "ERROR":
            raise from_status(obj, f"watch the {self.title}")
        if kind == "BOOKMARK":
            self._reach(str(mapping(obj.get("metadata")).get("resourceVersion") or ""))
            return
        key, version = _identity(obj)
        known = self._versions.get(key, 0)
        # Version 0 marks a version that is not a number, so that the order is unknown.
        if version and (version <= self._point_number or version < known):
            return
        if version and version == known and (kind != "DELETED" or key in self._deleted):
            return
        self._versions[key] = version
        if version > _number(self._newest):
            self._newest = str(version)
        if kind == "DELETED":
            self._deleted.add(key)
            self.unreadable.pop(key, None)
            if key in self.objects:
                # The last state may be new, e.g. how a pod ended.
                self._keep(key, obj)
            if self.objects.pop(key, None) is not None:
                self._last(obj)
                self.changed(key)
            return
        self._deleted.discard(key)
        self._keep(key, obj)

    def _keep(self, key: str, obj: Obj) -> None:
        self.unreadable.pop(key, None)
        try:
            if key.endswith("/"):
                raise TypeError("it must have a name")
            kept = self._reduce(obj)
            if kept is not None:
                self.objects[key] = kept
                self.changed(key)
                return
        except ILL_TYPED as error:
            self.unreadable[key] = f"{type(error).__name__}: {error}"
        if self.objects.pop(key, None) is not None:
            self.changed(key)

    def _reach(self, version: str) -> None:
        """Record that everything up to this version is delivered, because older events can't arrive any
        more."""
        if not version:
            return
        self._point, self._point_number, self._newest = version, _number(version), version
        for key in self._deleted:
            self._versions.pop(key, None)
        self._deleted.clear()
        self.read_at = datetime.now(UTC)

    def _well(self) -> None:
        self.error = None
        self.read_at = datetime.now(UTC)


def _identity(obj: Obj) -> tuple[str, int]:
    """Return the key and version of an object. An ill-typed object has no name."""
    metadata = mapping(mapping(obj).get("metadata"))
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}", _number(
        metadata.get("resourceVersion")
    )


def _number(version: Any) -> int:
    """Return a resourceVersion as a number. Kubernetes documents this order since 1.35; earlier versions have
    it too."""
    text = str(version or "")
    return int(text) if text.isascii() and text.isdigit() else 0
