"""Events of a cluster, reduced to those that tell why a job waits or why its replicas failed."""

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
"""Reasons of most Events; none of them says more than the objects themselves."""
SELECTOR = ",".join(f"reason!={reason}" for reason in NOISE)
"""The field selector that leaves the others."""
OF_NODES = f"involvedObject.kind=Node,{SELECTOR}"
NODES_NAMESPACE = "default"
"""Where Events of nodes are, which have no namespace."""
WAITS = frozenset(
    {"NotTriggerScaleUp", "TriggeredScaleUp", "FailedScaleUp", "FailedMount", "FailedAttachVolume",
     "FailedCreate", "FailedCreatePod", "FailedCreateService", "FailedCreatePodSandBox"}
)  # fmt: skip
"""Why a pod waits, or is not there at all."""
ENDS = frozenset({"Evicted", "Preempted", "TaintManagerEviction", "NodeShutdown"})
"""Why a pod ended; the Event is about the pod."""
NODE_GOES = frozenset({"Shutdown", "NodeShutdown", "Preempted", "NodeNotReady", "PreemptScheduled"})
"""That a node goes away."""
KERNEL_KILLS = frozenset({"OOMKilling", "SystemOOM"})
"""That a node's kernel killed a process for its memory."""
SCHEDULED, KILLING, CREATED_POD, EXITED = "Scheduled", "Killing", "SuccessfulCreatePod", "ExitedWithCode"
DELETED_POD = "SuccessfulDeletePod"
_KEPT = WAITS | ENDS | NODE_GOES | KERNEL_KILLS | {SCHEDULED, KILLING, CREATED_POD, DELETED_POD, EXITED}
_SUSPENDED = re.compile(r"\w*Suspended")
_ERROR_POD = "Error pod "
"""How the Training Operator begins to say what is wrong with a container."""
ASSIGNED = re.compile(r"Successfully assigned \S+ to (?P<node>\S+)")
"""What the scheduler says of a pod."""
CREATED = re.compile(r"Created pod: (?P<pod>\S+)")
DELETED = re.compile(r"Deleted pod: (?P<pod>\S+)")
"""What an operator says of its job."""
STOPPING = "Stopping container"
"""How a kubelet begins to say that it ends a container because its pod is deleted, not to restart it."""


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """An Event; `about` is the name of the object that it is about."""

    reason: str
    message: str
    about: str = ""
    count: int = 1
    kind: str = ""
    """Of that object."""
    uid: str = ""
    first: datetime | None = None
    last: datetime | None = None

    @property
    def suspends(self) -> bool:
        """That the pods of a job were taken away on purpose."""
        return _SUSPENDED.fullmatch(self.reason) is not None

    @property
    def node(self) -> str:
        """The node that a pod was assigned to."""
        found = ASSIGNED.search(self.message) if self.reason == SCHEDULED else None
        return found["node"] if found else ""


def event_of(obj: Obj) -> ClusterEvent | None:
    """An Event as it is kept; None for one that tells nothing of a wait or a failure."""
    reason, message = str(obj.get("reason") or ""), str(obj.get("message") or obj.get("note") or "")
    if reason not in _KEPT and not message.startswith(_ERROR_POD) and not _SUSPENDED.fullmatch(reason):
        return None
    about = fields(obj, "involvedObject") or fields(obj, "regarding")
    series = fields(obj, "series")
    made = time_of(obj.get("eventTime")) or time_of(fields(obj, "metadata").get("creationTimestamp"))
    first = time_of(obj.get("firstTimestamp")) or made
    last = time_of(obj.get("lastTimestamp")) or time_of(series.get("lastObservedTime")) or first
    return ClusterEvent(
        sys.intern(reason), " ".join(message.split())[:_LONGEST], sys.intern(str(about.get("name") or "")),
        whole(obj.get("count")) or whole(series.get("count")) or 1, sys.intern(str(about.get("kind") or "")),
        str(about.get("uid") or ""), first, last,
    )  # fmt: skip


def events_of(objects: Iterable[Obj]) -> list[ClusterEvent]:
    """Those of these objects that tell something, in the order in which they came."""
    return [found for each in objects if (found := event_of(each)) is not None]


class EventIndex:
    """Events by what they are about. `key` names one Event: `namespace/name`."""

    def __init__(self) -> None:
        self._events: dict[str, ClusterEvent] = {}
        self._about: dict[tuple[str, str, str], dict[str, None]] = {}
        """Keys by namespace, kind and name."""
        self._pods: dict[str, list[str]] = {}
        """Names of pods that have Events, in order, by namespace."""
        self._assigned: dict[str, dict[tuple[str, str], None]] = {}
        """Namespace and name of the pods that were assigned to a node."""

    def put(self, key: str, event: ClusterEvent) -> None:
        """Take an Event, or what has become of it."""
        place = self._place(key, event)
        known = self._about.setdefault(place, {})
        if not known and event.kind == "Pod":
            insort(self._pods.setdefault(place[0], []), event.about)
        known[key] = None
        self._events[key] = event
        if event.node:
            self._assigned.setdefault(event.node, {})[place[0], event.about] = None

    def drop(self, key: str) -> None:
        """Forget an Event."""
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
        """The Event with this key."""
        return self._events.get(key)

    def about(self, namespace: str, kind: str, name: str) -> list[ClusterEvent]:
        """Events about an object, the oldest first."""
        found = [self._events[key] for key in self._about.get((namespace, kind, name), ())]
        return sorted(found, key=lambda each: seconds(each.last))

    def of_node(self, name: str) -> list[ClusterEvent]:
        """Events about a node, the oldest first."""
        return self.about("", "Node", name)

    def pods(self, namespace: str, prefix: str) -> list[str]:
        """Names of pods that begin so and have Events, whether they exist or not."""
        names = self._pods.get(namespace, [])
        at = bisect_left(names, prefix)
        found = []
        while at < len(names) and names[at].startswith(prefix):
            found.append(names[at])
            at += 1
        return found

    def assigned(self, node: str) -> list[tuple[str, str]]:
        """Namespace and name of the pods that were assigned to a node."""
        return list(self._assigned.get(node, ()))

    def _place(self, key: str, event: ClusterEvent) -> tuple[str, str, str]:
        # Events of nodes are in whatever namespace their source chose.
        return "" if event.kind == "Node" else key.partition("/")[0], event.kind, event.about


def index_of(objects: Iterable[Obj]) -> EventIndex:
    """The Events of a list."""
    index = EventIndex()
    for number, each in enumerate(objects):
        found = event_of(each)
        metadata = fields(each, "metadata")
        if found is not None:
            index.put(f"{metadata.get('namespace') or ''}/{metadata.get('name') or number}", found)
    return index


def seconds(time: datetime | None) -> float:
    """A time to sort by; what has none comes first."""
    return time.timestamp() if time else 0.0
