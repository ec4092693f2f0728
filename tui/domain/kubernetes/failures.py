"""How replicas failed whose pods an operator has replaced: from the pods that ended, or from Events.

An operator that restarts a replica deletes its failed pod at once, and says of the job only that a replica
failed. What the pod said, or what Events still say of it and its node, is why.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from tui.domain.kubernetes.conditions import time_of
from tui.domain.kubernetes.pods import Pod, node_words, reason_words
from tui.domain.kubernetes.workloads import at, fields, whole
from tui.domain.states import JobState

Obj = Mapping[str, Any]
ONE_CAUSE = timedelta(minutes=2)
"""Failures that are not further apart than this follow from one another: peers lose each other."""
NEAR = timedelta(seconds=30)
"""An Event of a node is about a pod that ended so near to it: nodes write times of their own."""
_EXITED = re.compile(r"Pod: [^. ]+\.(?P<pod>\S+) exited with code (?P<code>-?\d+)")
_ASSIGNED = re.compile(r"Successfully assigned \S+ to (?P<node>\S+)")
_NODE_GOES = frozenset({"Shutdown", "NodeShutdown", "Preempted", "NodeNotReady", "PreemptScheduled"})
_NO_CODE = 0xBEEF
"""What the Training Operator says of a pod whose container has no exit code."""
_KILLED = 137


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failure of one replica's earlier pods, and how many of them failed."""

    group: str
    index: int
    job_index: int = 0
    at: datetime | None = None
    exit_code: int | None = None
    words: str = ""
    """The cluster's reason; "" where it knows the exit code alone."""
    count: int = 1

    @property
    def cause(self) -> str:
        """How it failed, e.g. `out of memory (OOMKilled), exit code 137`."""
        code = "" if self.exit_code is None else f"exit code {self.exit_code}"
        return ", ".join(filter(None, (self.words, code))) or "failed"

    @property
    def restarted(self) -> str:
        """The reason of the replica that was started anew."""
        time = f", at {self.at:%H:%M:%S} UTC" if self.at else ""
        return f"restarted: {self.cause}{time}"


def failure_of(pod: Pod, count: int = 1) -> Failure:
    """How a pod failed."""
    return Failure(
        pod.group, pod.index or 0, pod.job_index, pod.ended, pod.exit_code, reason_words(pod), count
    )


def failed_by_itself(pod: Pod) -> bool:
    """Whether it failed, and not because someone deleted it: by a suspend, or with its job."""
    return pod.state is JobState.FAILED and not pod.stopped


def by_replica(pods: Iterable[Pod]) -> tuple[Failure, ...]:
    """The failures of pods that are gone, one for each replica."""
    found: dict[tuple[str, int, int], Failure] = {}
    for pod in sorted(pods, key=lambda pod: _seconds(pod.ended)):
        place = (pod.group, pod.job_index, pod.index or 0)
        before = found.get(place)
        found[place] = failure_of(pod, before.count + 1 if before else 1)
    return tuple(found.values())


def first_cause(failures: Sequence[Failure], names: Mapping[Failure, str]) -> str:
    """What the latest failures began with: one that the cluster explains before a mere exit code."""
    timed = sorted((each for each in failures if each.at), key=lambda each: _seconds(each.at), reverse=True)
    last: list[Failure] = []
    for each in timed:
        if last and last[-1].at and each.at and last[-1].at - each.at > ONE_CAUSE:
            break
        last.append(each)
    # Where no time is known, all of them are as good.
    chain = last[::-1] or list(failures)
    if not chain:
        return ""
    first = next((each for each in chain if each.words), chain[0])
    time = f" at {first.at:%H:%M:%S} UTC" if first.at else ""
    return f"{names.get(first, first.group)} failed{time}: {first.cause}"


# From Events


def exits_of(events: Iterable[Obj]) -> dict[str, tuple[int, datetime | None, int]]:
    """Exit code, time and number of the failed pods that a job's Events name, by the pod's name."""
    found: dict[str, tuple[int, datetime | None, int]] = {}
    for each in sorted(events, key=lambda each: _seconds(event_time(each))):
        said = (
            _EXITED.search(str(each.get("message") or "")) if each.get("reason") == "ExitedWithCode" else None
        )
        if said is None or int(said["code"]) == 0:
            continue
        count = (found[said["pod"]][2] if said["pod"] in found else 0) + (whole(each.get("count")) or 1)
        found[said["pod"]] = int(said["code"]), event_time(each), count
    return found


def event_time(event: Obj) -> datetime | None:
    """When an Event was seen last."""
    return time_of(event.get("lastTimestamp")) or time_of(event.get("eventTime"))


def event_uid(event: Obj) -> str:
    """The uid of the object that it is about."""
    return str(at(event, "involvedObject", "uid") or "")


def node_of(events: Iterable[Obj], before: datetime | None) -> str:
    """The node to which a pod of this name was assigned last before a time."""
    node = ""
    for each in sorted(events, key=lambda each: _seconds(event_time(each))):
        time = event_time(each)
        said = _ASSIGNED.search(str(each.get("message") or "")) if each.get("reason") == "Scheduled" else None
        if said and (before is None or time is None or time <= before):
            node = said["node"]
    return node


def from_events(
    pod: Pod, code: int, time: datetime | None, own: Iterable[Obj], node: Iterable[Obj]
) -> Failure:
    """The failure of the pod before `pod` in its place, from the Events of that name and of its node."""
    exit_code = None if code == _NO_CODE else code
    words = ""
    for each in own:
        reason = str(each.get("reason") or "")
        if reason in {"Evicted", "Preempted"} and event_uid(each) != pod.uid:
            words = reason_words(replace(pod, state=JobState.FAILED, reason=reason, message=_line(each)))
    near = {str(each.get("reason")) for each in node if _near(event_time(each), time)}
    if not words and near & _NODE_GOES:
        words = node_words(pod)
    elif not words and exit_code == _KILLED and "OOMKilling" in near:
        words = "out of memory (OOMKilled)"
    elif not words and exit_code == _KILLED:
        words = "killed (SIGKILL), often for too much memory"
    return Failure(pod.group, pod.index or 0, pod.job_index, time, exit_code, words)


def about_node(event: Obj) -> bool:
    """Whether an Event is about a node."""
    return fields(event, "involvedObject").get("kind") == "Node"


def _near(one: datetime | None, other: datetime | None) -> bool:
    return one is None or other is None or abs(one - other) <= NEAR


def _line(event: Obj) -> str:
    return " ".join(str(event.get("message") or "").split())[:400]


def _seconds(time: datetime | None) -> float:
    return time.timestamp() if time else 0.0
