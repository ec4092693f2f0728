"""Events of a cluster as they are watched: one watch for each scope, and one for those of nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tui.backends.errors import BackendError
from tui.backends.kubernetes.connection import ClusterConnection
from tui.backends.kubernetes.discovery import EVENTS
from tui.backends.kubernetes.watch.reflector import Reflector
from tui.backends.kubernetes.watch.source import ApiSource
from tui.domain.kubernetes.failures.events import (
    NODES_NAMESPACE,
    OF_NODES,
    SCHEDULED,
    SELECTOR,
    ClusterEvent,
    EventIndex,
    event_of,
)

EVERYWHERE = ""
"""The scope of a watch that covers all namespaces."""
MOST_EXPIRED = 2_000
"""Events that are kept after the cluster has forgotten them: a console that stays open still knows why."""


class WatchedEvents:
    """`changed` is called with the namespace and the Event that came or was counted again."""

    def __init__(self, changed: Callable[[str, ClusterEvent], None]) -> None:
        self.index = EventIndex()
        self.reflectors: dict[str, Reflector[ClusterEvent]] = {}
        """By scope; that of nodes by `nodes`."""
        self._changed = changed
        self._expired: dict[str, None] = {}

    def open(self, connection: ClusterConnection, scopes: Sequence[str]) -> list[Reflector[ClusterEvent]]:
        """The reflectors to run."""
        wanted = {scope: (scope, SELECTOR) for scope in scopes}
        if EVERYWHERE not in scopes and NODES_NAMESPACE not in scopes:
            wanted["nodes"] = NODES_NAMESPACE, OF_NODES
        for name, (scope, selector) in wanted.items():
            source = ApiSource(connection, EVENTS.path(scope), "events", fields=selector)
            reflector: Reflector[ClusterEvent] = Reflector("events", source, event_of, lambda key: None)
            reflector.changed = lambda key, of=reflector: self._take(of, key)  # type: ignore[misc]
            self.reflectors[name] = reflector
        return list(self.reflectors.values())

    def clear(self) -> None:
        """Forget the reflectors."""
        self.reflectors.clear()

    def of(self, namespace: str) -> Reflector[ClusterEvent] | None:
        """The reflector of the Events of a namespace."""
        return self.reflectors.get(namespace) or self.reflectors.get(EVERYWHERE)

    def settled(self, namespace: str) -> bool:
        """Whether the Events of a namespace have been listed, or can't be."""
        found = self.of(namespace)
        return found is None or found.synced.is_set() or found.error is not None

    def readable(self, namespace: str) -> EventIndex | None:
        """The Events, where those of a namespace can be read."""
        found = self.of(namespace)
        return self.index if found is not None and found.synced.is_set() else None

    def error(self, namespace: str) -> BackendError | None:
        """Why the Events of a namespace can't be read."""
        found = self.of(namespace)
        return found.error if found is not None else None

    def _take(self, reflector: Reflector[ClusterEvent], key: str) -> None:
        event = reflector.objects.get(key)
        if event is None:
            # A cluster forgets an Event after an hour; what it told is still so.
            if self.index.get(key) is not None:
                self._expired[key] = None
            for old in list(self._expired)[:-MOST_EXPIRED]:
                del self._expired[old]
                self.index.drop(old)
            return
        self._expired.pop(key, None)
        self.index.put(key, event)
        if event.reason != SCHEDULED:
            self._changed(key.partition("/")[0], event)
