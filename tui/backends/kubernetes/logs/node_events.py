"""Events of the nodes of a job's pods: they may explain why a pod ended when its own events don't.

Events of nodes are in the namespace `default`. The job's nodes are known from existing pods, and from the
scheduler's events about deleted pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tui.backends.kubernetes.discovery import EVENTS
from tui.backends.kubernetes.fields import mapping, text
from tui.backends.kubernetes.logs.lines.stamped import stamp_at
from tui.backends.kubernetes.logs.service_entries import event_entry
from tui.domain.core.log_entry import LogEntry, Severity
from tui.domain.kubernetes.failures.events import ASSIGNED

Obj = Mapping[str, Any]
NAMESPACE = "default"
PATH = EVENTS.path(NAMESPACE)
FIELDS = "involvedObject.kind=Node"
"""The field selector of events about nodes."""
REASONS = frozenset(
    {
        "Shutdown", "NodeShutdown", "NodeNotReady", "NodeNotSchedulable", "Preempted", "PreemptScheduled",
        "TerminateScheduled", "OOMKilling", "SystemOOM", "EvictionThresholdMet", "DeletingNode",
        "RemovingNode",
        "ScaleDown", "Rebooted",
    }
)  # fmt: skip
"""Reasons of events that may end a pod."""


class NodeEvents:
    """Holds back events of nodes until a node is known to have run the job."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}
        """Time (ns) at which the first pod of the job was assigned to a node, by node."""
        self._events: dict[str, dict[str, Obj]] = {}
        """Events by node and key."""

    def assigned(self, event: Obj, stamp: int) -> Iterator[LogEntry]:
        """Handle an event about a pod of the job; yield entries of its node."""
        assigned = ASSIGNED.match(text(event.get("message")))
        if event.get("reason") == "Scheduled" and assigned is not None:
            yield from self.use(assigned["node"], stamp)

    def use(self, node: str, since: int | None) -> Iterator[LogEntry]:
        """Record that a pod of the job is on a node since this time; yield entries of the node."""
        if not node or since is None or self._since.get(node, since + 1) <= since:
            return
        self._since[node] = since
        for event in self._events.get(node, {}).values():
            yield from self._entries(node, event)

    def add(self, event: Obj) -> Iterator[LogEntry]:
        """Handle an event about a node; yield its entry if the node has run the job."""
        node, meta = (
            str(mapping(event.get("involvedObject")).get("name") or ""),
            mapping(event.get("metadata")),
        )
        if event.get("reason") in REASONS:
            self._events.setdefault(node, {})[str(meta.get("name") or "")] = event
            yield from self._entries(node, event)

    def _entries(self, node: str, event: Obj) -> Iterator[LogEntry]:
        since, entry = self._since.get(node), event_entry(event, "")
        if entry is not None and since is not None and stamp_at(entry.timestamp) >= since:
            yield replace(entry, severity=max(entry.severity, Severity.WARNING))


def is_about_node(event: Obj) -> bool:
    """Return whether an event is about a node."""
    return mapping(event.get("involvedObject")).get("kind") == "Node"
