"""Finds pods of a job that ran before the existing pods, from the cluster's events. The module does no I/O.

A Training Operator replaces a failed replica's pod with a new pod of the same name, and suspending a job
deletes all its pods. Their logs are deleted too, and the existing pods don't show that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tui.backends.kubernetes.fields import mapping, text
from tui.backends.kubernetes.logs.lines.stamped import SECOND, stamp_of
from tui.backends.kubernetes.logs.pods import LoggedPod
from tui.domain.kubernetes.failures.events import CREATED, DELETED

Obj = Mapping[str, Any]
_CAUSES = frozenset(
    {"Evicted", "Preempted", "TaintManagerEviction", "NodeShutdown", "NodeNotReady", "OOMKilling"}
)
"""Reasons of events that explain the end of a pod."""
STOPS_WITHIN = 15 * SECOND
"""Maximum delay before the kubelet stops a deleted pod."""
_JOB_CAUSE = re.compile(r"\w*(?:Restarting|Suspended|Evicted|Preempted|Stopped)")
"""Reasons of a job's events that explain why its pods were deleted."""


@dataclass(frozen=True, slots=True)
class GonePod:
    """A pod that ran and no longer exists."""

    name: str
    replica: str
    """The replica's id, or the pod's name if it does not contain the id."""
    started: int
    """Time at which the pod was first seen running, in ns since the epoch."""
    why: str
    """The cause of the pod's end from its events, or "" if there is none."""
    killed: int | None = None
    """Time (ns) of the request that the kubelet stop the pod's containers."""


@dataclass(frozen=True, slots=True)
class Generation:
    """Pods of different replicas that ran at about the same time, before the pods that replaced them."""

    pods: tuple[GonePod, ...]
    until: int | None
    """Time (ns) of the first replacement."""
    why: str = ""
    meant: bool = False
    """Whether the pods were stopped on purpose, because the job was suspended or scaled down."""

    @property
    def began(self) -> int:
        """Time (ns) at which the first of these pods ran."""
        return self.pods[0].started

    @property
    def over(self) -> int | None:
        """Time (ns) by which all of these pods had certainly ended; None if it is unknown."""
        ends = [pod.killed for pod in self.pods]
        return self.until or (None if None in ends else max(end for end in ends if end is not None))


def replaced_pods(
    events: Collection[Obj],
    job: str,
    is_own: Callable[[Obj], bool],
    replica_of: Callable[[str], str],
    present: Iterable[LoggedPod],
) -> list[Generation]:
    """Return the pods of the job with the uid `job` that ran and are not `present`, as generations, oldest
    first.

    `is_own` checks whether an event is about a pod with a name of this job; `replica_of` returns the replica
    in a pod's name, or "" if the name contains none.
    """
    now = list(present)
    generations = _generations(_gone(events, job, is_own, replica_of, {pod.uid for pod in now}))
    return [
        _explained(_bounded(generation, generations[at + 1 :], now), events, job)
        for at, generation in enumerate(generations)
    ]


def _gone(
    events: Collection[Obj],
    job: str,
    is_own: Callable[[Obj], bool],
    replica_of: Callable[[str], str],
    present: Collection[str],
) -> list[GonePod]:
    messages = (
        CREATED.fullmatch(text(event_.get("message")))
        for event_ in events
        if _about(event_).get("uid") == job
    )
    created = {match["pod"] for match in messages if match is not None}
    started: dict[str, tuple[int, str]] = {}
    ends: dict[str, str] = {}
    killed: dict[str, int | None] = {}
    for event in events:
        about = _about(event)
        uid, name = str(about.get("uid") or ""), str(about.get("name") or "")
        if about.get("kind") != "Pod" or not uid or uid in present or not (name in created or is_own(event)):
            continue
        reason, at = str(event.get("reason") or ""), _first_seen(event)
        if reason == "Started" and at is not None:
            started[uid] = min(started.get(uid, (at, name)), (at, name))
        elif reason == "Killing":
            killed[uid] = _stamp(event.get("lastTimestamp")) or at
        elif reason in _CAUSES:
            ends[uid] = f"{reason}: {text(event.get('message'))}"
    pods = [
        GonePod(name, replica_of(name) or name, at, ends.get(uid, ""), killed.get(uid))
        for uid, (at, name) in started.items()
    ]
    return sorted(pods, key=lambda pod: (pod.started, pod.name))


def _generations(pods: Iterable[GonePod]) -> list[Generation]:
    """Group the first pods of each replica, then the second pods, and so on."""
    generations: list[list[GonePod]] = []
    counts: dict[str, int] = {}
    for pod in pods:
        number = counts[pod.replica] = counts.get(pod.replica, -1) + 1
        if number == len(generations):
            generations.append([])
        generations[number].append(pod)
    return [Generation(tuple(members), None) for members in generations]


def _bounded(mine: Generation, later: Sequence[Generation], present: Iterable[LoggedPod]) -> Generation:
    replicas = {pod.replica for pod in mine.pods}
    starts = [pod.started for generation in later[:1] for pod in generation.pods if pod.replica in replicas]
    if not starts:
        starts = [pod.created for pod in present if pod.replica in replicas and pod.created is not None]
    return replace(mine, until=min((at for at in starts if at >= mine.began), default=None))


def _explained(mine: Generation, events: Collection[Obj], job: str) -> Generation:
    own = next((pod.why for pod in mine.pods if pod.why), "")
    if own:
        return replace(mine, why=own)
    # Event times have a resolution of one second, and an operator reports the reason before it creates the
    # next pods.
    end = None if mine.until is None else mine.until + SECOND
    causes: dict[bool, str] = {}
    for event in events:
        reason = str(event.get("reason") or "")
        if _about(event).get("uid") != job or not _JOB_CAUSE.fullmatch(reason):
            continue
        if any(at >= mine.began and (end is None or at <= end) for at in _times(event, mine.pods)):
            causes[reason.endswith("Restarting")] = f"{reason}: {text(event.get('message'))}"
    if False in causes:
        return replace(mine, why=causes[False], meant="Suspended" in causes[False].partition(":")[0])
    if all(_removed(pod, events, job) for pod in mine.pods):
        # The operator's restart message then concerns other pods, or describes how these pods ended.
        return replace(mine, why="scaled down", meant=True)
    return replace(mine, why=causes.get(True, ""))


def _removed(pod: GonePod, events: Iterable[Obj], job: str) -> bool:
    """Return whether the operator deleted the pod while it ran."""
    for event in events if pod.killed is not None else ():
        deleted = DELETED.fullmatch(text(event.get("message")))
        if deleted is None or deleted["pod"] != pod.name or _about(event).get("uid") != job:
            continue
        if any(abs((pod.killed or 0) - at) <= STOPS_WITHIN for at in _times(event, [pod])):
            return True
    return False


def _times(event: Obj, pods: Iterable[GonePod]) -> list[int]:
    """Return the times of an event; for a repeated event also the pods' ends between its first and last
    time."""
    first, last = _first_seen(event), _stamp(event.get("lastTimestamp"))
    count = event.get("count")
    times = [at for at in (first, last) if at is not None]
    if first is not None and last is not None and isinstance(count, int) and count > len(times):
        times += [pod.killed for pod in pods if pod.killed is not None and first <= pod.killed <= last]
    return times


def _about(event: Obj) -> Mapping[str, Any]:
    return mapping(event.get("involvedObject"))


def _first_seen(event: Obj) -> int | None:
    meta = mapping(event.get("metadata"))
    times = (event.get("firstTimestamp"), event.get("eventTime"), meta.get("creationTimestamp"))
    return next((stamp for stamp in map(_stamp, times) if stamp), None)


def _stamp(value: object) -> int | None:
    return stamp_of(value) if isinstance(value, str) and value else None
