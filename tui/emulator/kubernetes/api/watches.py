"""The stream of a watch: initial objects, changes, bookmarks and the end."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from tui.emulator.kubernetes.api.forms import ReplyForm, encode
from tui.emulator.kubernetes.api.selectors import Matches
from tui.emulator.kubernetes.errors import ApiError
from tui.emulator.kubernetes.objects import Objects, Stored
from tui.emulator.kubernetes.resources import ApiResource
from tui.emulator.kubernetes.watching import Subscription, WatchEvent

LEAST_SECONDS = 1800
"""Minimum duration of a watch without a limit; the maximum is twice this time, as in the API server."""
INITIAL_END = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class Watch:
    """The parameters of a watch."""

    resource: ApiResource
    namespace: str
    matches: Matches | None
    form: ReplyForm
    since: int | None
    """Version after which changes are sent; `None` sends the existing objects first."""
    initial: bool
    """Whether the existing objects are sent first, followed by a bookmark if `bookmarks`."""
    bookmarks: bool
    seconds: float
    bookmark_seconds: float


class WatchStream:
    """One watch of a client. The constructor subscribes, so no change is lost before the first read."""

    def __init__(self, objects: Objects, watch: Watch) -> None:
        self._objects, self._watch = objects, watch
        self._first: list[bytes] = []
        self._changes: Subscription | None = None
        try:
            self._changes = objects.watch([watch.resource], watch.since)
        except ApiError as error:
            # The API server's cache reports this error in the stream.
            self._first = [_frame("ERROR", encode(error.status()))]
            return
        if watch.since is None or watch.initial:
            # The present objects already include the changes since then.
            self._changes.take()
            self._first = [
                self._object("ADDED", stored)
                for stored in objects.all_stored(watch.resource, watch.namespace)
                if watch.matches is None or watch.matches(stored.obj)
            ]
            if watch.initial and watch.bookmarks:
                self._first.append(self._bookmark(initial_end=True))

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._stream()

    def close(self) -> None:
        if self._changes is not None:
            self._changes.close()

    async def _stream(self) -> AsyncIterator[bytes]:
        watch, changes = self._watch, self._changes
        end = time.monotonic() + (watch.seconds or random.uniform(LEAST_SECONDS, 2 * LEAST_SECONDS))
        try:
            # Even an empty part sends the headers.
            yield b"".join(self._first)
            self._first.clear()
            if changes is None:
                return
            bookmark_at = time.monotonic() + watch.bookmark_seconds
            while not changes.closed and time.monotonic() < end:
                try:
                    async with asyncio.timeout(max(0.0, min(end, bookmark_at) - time.monotonic())):
                        await changes.wait()
                except TimeoutError:
                    pass
                parts = [part for event in changes.take() if (part := self._event(event))]
                if time.monotonic() >= bookmark_at:
                    bookmark_at = time.monotonic() + watch.bookmark_seconds
                    parts += [self._bookmark()] if watch.bookmarks else []
                if parts:
                    yield b"".join(parts)
            if watch.bookmarks and not changes.closed:
                yield self._bookmark()
        finally:
            self.close()

    def _event(self, event: WatchEvent) -> bytes | None:
        watch = self._watch
        meta = event.obj["metadata"]
        if watch.namespace and meta.get("namespace") != watch.namespace:
            return None
        kind: str = event.type
        if watch.matches is not None:
            now = watch.matches(event.obj)
            before = event.old is not None and watch.matches(event.old)
            if kind == "MODIFIED":
                # An object that starts or stops matching appears or disappears for this client.
                kind = "MODIFIED" if now and before else "ADDED" if now else "DELETED" if before else ""
            elif not (before if kind == "DELETED" else now):
                kind = ""
        if kind == "DELETED" and event.type == "MODIFIED" and event.old is not None:
            # Send the last state that the selector matches.
            meta = {**event.old["metadata"], "resourceVersion": str(event.version)}
            old = {**event.old, "metadata": meta}
            return self._object(kind, Stored(old, encode(old), event.version))
        return self._object(kind, Stored(event.obj, event.raw, event.version)) if kind else None

    def _object(self, kind: str, stored: Stored) -> bytes:
        return _frame(kind, self._watch.form.single(self._watch.resource, stored))

    def _bookmark(self, *, initial_end: bool = False) -> bytes:
        resource, form = self._watch.resource, self._watch.form
        version = str(self._objects.version)
        meta: dict[str, object] = {"resourceVersion": version, "creationTimestamp": None}
        if initial_end:
            meta["annotations"] = {INITIAL_END: "true"}
        if form.kind:
            api_version = f"meta.k8s.io/{form.version}"
            obj: dict[str, object] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": api_version,
                "metadata": meta,
            }
            if form.kind == "Table":
                row = {"cells": [], "object": obj}
                obj = {
                    "kind": "Table",
                    "apiVersion": api_version,
                    "metadata": {"resourceVersion": version},
                    "columnDefinitions": [],
                    "rows": [row],
                }
        else:
            obj = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
        return _frame("BOOKMARK", encode(obj))


def _frame(kind: str, raw: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), raw)
