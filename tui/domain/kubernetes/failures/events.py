"""Events of a cluster that explain why a job waits or why its replicas failed."""

from __future__ import annotations

import re
import sys
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tui.domain.kubernetes.conditions import time_of
from tui.domain.kubernetes.workloads import fields, whole

Obj = Mapping[str, Any]
_LONGEST = 400
NOISE = ("Pulling", "Pulled", "Created", "Started", "SuccessfulCreateService", "Starting", "RegisteredNode",
         "BackOff", "Unhealthy", "FailedScheduling")  # fmt: skip
"""Reasons of most Events, which add nothing to the status of the objects."""
SELECTOR = ",".join(f"reason!={reason}" for reason in NOISE)
"""Field selector of all other Events."""
OF_NODES = f"involvedObject.kind=Node,{SELECTOR}"
NODES_NAMESPACE = "default"
"""Namespace of Events about nodes."""
WAITS = frozenset(
    {"NotTriggerScaleUp", "TriggeredScaleUp", "FailedScaleUp", "FailedMount", "FailedAttachVolume",
     "FailedCreate", "FailedCreatePod", "FailedCreateService", "FailedCreatePodSandBox",
     "JobCreationFailed", "PVCCreationFailed", "HeadlessServiceCreationFailed",
     "TrainJobResourcesCreationFailed"}
)  # fmt: skip
"""Reasons of Events about a pod that waits, or was not created."""
ENDS = frozenset({"Evicted", "Preempted", "TaintManagerEviction", "NodeShutdown"})
"""Reasons of Events about a pod that ended."""
NODE_GOES = frozenset({"Shutdown", "NodeShutdown", "Preempted", "NodeNotReady", "PreemptScheduled"})
"""Reasons that announce the end of a node."""
KERNEL_KILLS = frozenset({"OOMKilling", "SystemOOM"})
"""Reasons of Events about a process that the node's kernel killed for its memory."""
SCHEDULED, KILLING, CREATED_POD, EXITED = "Scheduled", "Killing", "SuccessfulCreatePod", "ExitedWithCode"
DELETED_POD = "SuccessfulDeletePod"
_KEPT = WAITS | ENDS | NODE_GOES | KERNEL_KILLS | {SCHEDULED, KILLING, CREATED_POD, DELETED_POD, EXITED}
_SUSPENDED = re.compile(r"\w*Suspended")
_ERROR_POD = "Error pod "
"""Prefix of the Training Operator's message about a failed container."""
ASSIGNED = re.compile(r"Successfully assigned \S+ to (?P<node>\S+)")
"""The scheduler's message about a placed pod."""
CREATED = re.compile(r"Created pod: (?P<pod>\S+)")
DELETED = re.compile(r"Deleted pod: (?P<pod>\S+)")
"""An operator's message about a deleted pod of its job."""
STOPPING = "Stopping container"
"""Prefix of the kubelet's message about a container of a deleted pod that ends without a restart."""


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """An Event; `about` is the name of its object."""

    reason: str
    message: str
    about: str = ""
    count: int = 1
    kind: str = ""
    """Kind of the object `about`."""
    uid: str = ""
    first: datetime | None = None
    last: datetime | None = None

    @property
    def suspends(self) -> bool:
        """Whether the Event reports a suspension, which removes a job's pods on purpose."""
        return _SUSPENDED.fullmatch(self.reason) is not None

    @property
    def node(self) -> str:
        """The node in an Event about an assigned pod."""
        match = ASSIGNED.search(self.message) if self.reason == SCHEDULED else None
        return match["node"] if match else ""


def event_of(obj: Obj) -> ClusterEvent | None:
    """Reduce an Event to the used fields; None if it explains neither a wait nor a failure."""
    reason, message = str(obj.get("reason") or ""), str(obj.get("message") or obj.get("note") or "")
    if reason not in _KEPT and not message.startswith(_ERROR_POD) and not _SUSPENDED.fullmatch(reason):
        return None
    about = fields(obj, "involvedObject") or fields(obj, "regarding")
    series = fields(obj, "series")
    created = time_of(obj.get("eventTime")) or time_of(fields(obj, "metadata").get("creationTimestamp"))
    first = time_of(obj.get("firstTimestamp")) or created
    last = time_of(obj.get("lastTimestamp")) or time_of(series.get("lastObservedTime")) or first
    return ClusterEvent(
        sys.intern(reason), " ".join(message.split())[:_LONGEST], sys.intern(str(about.get("name") or "")),
        whole(obj.get("count")) or whole(series.get("count")) or 1, sys.intern(str(about.get("kind") or "")),
        str(about.get("uid") or ""), first, last,
    )  # fmt: skip


def events_of(objects: Iterable[Obj]) -> list[ClusterEvent]:
    """Return the relevant Events, in their original order."""
    return [event for obj in objects if (event := event_of(obj)) is not None]


class EventIndex:
    """Events by their object. `key` identifies one Event: `namespace/name`."""

    def __init__(self) -> None:
        self._events: dict[str, ClusterEvent] = {}
        self._about: dict[tuple[str, str, str], dict[str, None]] = {}
        """The keys of the Events about each object, by the object's namespace, kind and name."""
        self._pods: dict[str, list[str]] = {}
        """Sorted names of pods with Events, by namespace."""
        self._assigned: dict[str, dict[tuple[str, str], None]] = {}
        """Namespace and name of the pods assigned to each node."""

    def put(self, key: str, event: ClusterEvent) -> None:
        """Add or update an Event."""
        place = self._place(key, event)
        known = self._about.setdefault(place, {})
        if not known and event.kind == "Pod":
            insort(self._pods.setdefault(place[0], []), event.about)
        known[key] = None
        self._events[key] = event
        if event.node:
            self._assigned.setdefault(event.node, {})[place[0], event.about] = None

    def drop(self, key: str) -> None:
        """Remove an Event."""
        event = self._events.pop(key, None)
        if event is None:
            return
        place = self._place(key, event)
        self._about[place].pop(key, None)
        if not self._about[place]:
            del self._about[place]
            if event.kind == "Pod":
                names = self._pods[place[0]]
                del names[bisect_left(names, event.about)]
        if event.node:
            self._assigned.get(event.node, {}).pop((place[0], event.about), None)

    def get(self, key: str) -> ClusterEvent | None:
        """Return the Event with this key."""
        return self._events.get(key)

    def about(self, namespace: str, kind: str, name: str) -> list[ClusterEvent]:
        """Return the Events about an object, oldest first."""
        events = [self._events[key] for key in self._about.get((namespace, kind, name), ())]
        return sorted(events, key=lambda event: seconds(event.last))

    def of_node(self, name: str) -> list[ClusterEvent]:
        """Return the Events about a node, oldest first."""
        return self.about("", "Node", name)

    def pods(self, namespace: str, prefix: str) -> list[str]:
        """Return the names of pods with Events that begin with the prefix, including deleted pods."""
        names = self._pods.get(namespace, [])
        at = bisect_left(names, prefix)
        matches = []
        while at < len(names) and names[at].startswith(prefix):
            matches.append(names[at])
            at += 1
        return matches

    def assigned(self, node: str) -> list[tuple[str, str]]:
        """Return namespace and name of the pods assigned to a node."""
        return list(self._assigned.get(node, ()))

    def _place(self, key: str, event: ClusterEvent) -> tuple[str, str, str]:
        # The source of an Event chooses the namespace of Events about nodes.
        return "" if event.kind == "Node" else key.partition("/")[0], event.kind, event.about


def index_of(objects: Iterable[Obj]) -> EventIndex:
    """Index the Events of a list."""
    index = EventIndex()
    for number, obj in enumerate(objects):
        event = event_of(obj)
        metadata = fields(obj, "metadata")
        if event is not None:
            index.put(f"{metadata.get('namespace') or ''}/{metadata.get('name') or number}", event)
    return index


def seconds(time: datetime | None) -> float:
    """Return a time as a sort key; a missing time comes first."""
    return time.timestamp() if time else 0.0
