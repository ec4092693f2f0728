"""Watches a cluster's Events: one watch per scope, and one for the Events of nodes."""

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
"""Maximum number of Events that are kept after the cluster has dropped them, so that a long-running console
can still explain them."""


class WatchedEvents:
    """Calls `changed` with the namespace and the Event when an Event is new or repeated."""

    def __init__(self, changed: Callable[[str, ClusterEvent], None]) -> None:
        self.index = EventIndex()
        self.reflectors: dict[str, Reflector[ClusterEvent]] = {}
        """Reflectors by scope; the reflector for nodes has the key `nodes`."""
        self._changed = changed
        self._expired: dict[str, None] = {}

    def open(self, connection: ClusterConnection, scopes: Sequence[str]) -> list[Reflector[ClusterEvent]]:
        """Return the reflectors, which the caller must run."""
        sources = {scope: (scope, SELECTOR) for scope in scopes}
        if EVERYWHERE not in scopes and NODES_NAMESPACE not in scopes:
            sources["nodes"] = NODES_NAMESPACE, OF_NODES
        for name, (scope, selector) in sources.items():
            source = ApiSource(connection, EVENTS.path(scope), "events", fields=selector)
            reflector: Reflector[ClusterEvent] = Reflector("events", source, event_of, lambda key: None)
            reflector.changed = lambda key, of=reflector: self._take(of, key)  # type: ignore[misc]
            self.reflectors[name] = reflector
        return list(self.reflectors.values())

    def clear(self) -> None:
        """Drop the reflectors."""
        self.reflectors.clear()

    def of(self, namespace: str) -> Reflector[ClusterEvent] | None:
        """Return the reflector of the Events of a namespace."""
        return self.reflectors.get(namespace) or self.reflectors.get(EVERYWHERE)

    def settled(self, namespace: str) -> bool:
        """Return whether the Events of a namespace have been listed or can't be listed."""
        reflector = self.of(namespace)
        return reflector is None or reflector.synced.is_set() or reflector.error is not None

    def readable(self, namespace: str) -> EventIndex | None:
        """Return the Events if the Events of the namespace can be read."""
        reflector = self.of(namespace)
        return self.index if reflector is not None and reflector.synced.is_set() else None

    def error(self, namespace: str) -> BackendError | None:
        """Return the reason why the Events of a namespace can't be read."""
        reflector = self.of(namespace)
        return reflector.error if reflector is not None else None

    def _take(self, reflector: Reflector[ClusterEvent], key: str) -> None:
        event = reflector.objects.get(key)
        if event is None:
            # A cluster drops an Event after an hour, but its content remains true.
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
