"""The history of changes, and subscriptions to new changes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from tui.emulator.kubernetes.errors import ApiExpired
from tui.emulator.kubernetes.resources import ApiResource, Obj

EventType = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change. `obj` is the object after it, or the last state of a deleted object."""

    type: EventType
    resource: ApiResource
    obj: Obj
    old: Obj | None = None
    """The object before the change, or `None` for a new object."""
    version: int = 0
    raw: bytes = b""
    """`obj` as JSON."""


class Subscription:
    """An async iterator over events. A slow reader loses no event."""

    def __init__(self, bus: EventBus, resources: Collection[ApiResource]) -> None:
        self._bus = bus
        self.resources = frozenset(resources)
        self._waiting: deque[WatchEvent] = deque()
        self._ready = asyncio.Event()
        self._closed = False

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> WatchEvent:
        while not self._waiting:
            if self._closed:
                raise StopAsyncIteration
            self._ready.clear()
            await self._ready.wait()
        return self._waiting.popleft()

    def take(self) -> list[WatchEvent]:
        """Return the pending events without waiting."""
        events = list(self._waiting)
        self._waiting.clear()
        return events

    async def wait(self) -> None:
        """Wait for an event or for the end of the subscription."""
        if not self._waiting and not self._closed:
            self._ready.clear()
            await self._ready.wait()

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """End the iteration after the pending events."""
        self._bus.drop(self)
        self._closed = True
        self._ready.set()

    def push(self, event: WatchEvent) -> None:
        self._waiting.append(event)
        self._ready.set()


class EventBus:
    """Delivers changes to subscriptions and stores the newest `room` changes."""

    def __init__(self, room: int) -> None:
        self._history: deque[WatchEvent] = deque(maxlen=room)
        self._subscriptions: list[Subscription] = []
        self._oldest = 0
        """Version up to which changes are forgotten."""

    def start(self, version: int) -> None:
        """Forget the history up to `version`."""
        self._history.clear()
        self._oldest = version

    def publish(self, event: WatchEvent) -> None:
        if self._history.maxlen == len(self._history) and self._history:
            self._oldest = self._history[0].version
        self._history.append(event)
        for subscription in self._subscriptions:
            if event.resource in subscription.resources:
                subscription.push(event)

    def subscribe(self, resources: Collection[ApiResource], since: int | None = None) -> Subscription:
        """Subscribe to events from now on, after replaying events newer than `since`. Raises ApiExpired if
        the history no longer reaches back to `since`."""
        subscription = Subscription(self, resources)
        if since is not None:
            for event in self.newer(since):
                if event.resource in subscription.resources:
                    subscription.push(event)
        self._subscriptions.append(subscription)
        return subscription

    def newer(self, since: int) -> list[WatchEvent]:
        """Return the changes after a version, oldest first. Raises ApiExpired if some are no longer
        stored."""
        if since < self._oldest:
            raise ApiExpired(f"too old resource version: {since} ({self._oldest})")
        events: list[WatchEvent] = []
        for event in reversed(self._history):
            if event.version <= since:
                break
            events.append(event)
        return events[::-1]

    def drop(self, subscription: Subscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)

    def close(self) -> None:
        for subscription in list(self._subscriptions):
            subscription.close()
