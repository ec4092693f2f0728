"""What the cluster says of the nodes that a job's pods were on: why a pod went its own events may not say.

Events of nodes are in the namespace `default`, whatever the job's is. Which nodes those are is known from the
pods that exist and from the scheduler's events about those that don't.
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
"""Those that may end a pod."""


class NodeEvents:
    """Keeps events of nodes until one is known to be a node of the job."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}
        """When the first pod of the job came to a node (ns)."""
        self._events: dict[str, dict[str, Obj]] = {}
        """By node and key."""

    def assigned(self, event: Obj, stamp: int) -> Iterator[LogEntry]:
        """Take an event about a pod of the job; what that lets be told."""
        found = ASSIGNED.match(text(event.get("message")))
        if event.get("reason") == "Scheduled" and found is not None:
            yield from self.use(found["node"], stamp)

    def use(self, node: str, since: int | None) -> Iterator[LogEntry]:
        """A pod of the job is on a node since then; what that lets be told."""
        if not node or since is None or self._since.get(node, since + 1) <= since:
            return
        self._since[node] = since
        for event in self._events.get(node, {}).values():
            yield from self._entries(node, event)

    def add(self, event: Obj) -> Iterator[LogEntry]:
        """Take an event about a node; what that lets be told."""
        node, meta = (
            str(mapping(event.get("involvedObject")).get("name") or ""),
            mapping(event.get("metadata")),
        )
        if event.get("reason") in REASONS:
            self._events.setdefault(node, {})[str(meta.get("name") or "")] = event
            yield from self._entries(node, event)

    def _entries(self, node: str, event: Obj) -> Iterator[LogEntry]:
        since, found = self._since.get(node), event_entry(event, "")
        if found is not None and since is not None and stamp_at(found.timestamp) >= since:
            yield replace(found, severity=max(found.severity, Severity.WARNING))


def is_about_node(event: Obj) -> bool:
    """Whether an event is about a node."""
    return mapping(event.get("involvedObject")).get("kind") == "Node"
