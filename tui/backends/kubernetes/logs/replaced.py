"""Pods of a job that ran before those that exist now, as the events of the cluster show them. Pure.

A Training Operator replaces the pod of a replica that fails by a new one of the same name, and a suspended
job loses all of its pods: what they wrote is gone with them, and the pods that exist do not say so.
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
"""Reasons of events about a pod that say why it went."""
STOPS_WITHIN = 15 * SECOND
"""Longest delay before the kubelet stops a deleted pod."""
_JOB_CAUSE = re.compile(r"\w*(?:Restarting|Suspended|Evicted|Preempted|Stopped)")
"""Reasons of events about a job that say why its pods were deleted."""


@dataclass(frozen=True, slots=True)
class GonePod:
    """A pod that ran and does not exist any more."""

    name: str
    replica: str
    """Its id, or the pod's name where that does not say it."""
    started: int
    """When it was first seen to run, in ns since 1970."""
    why: str
    """What its events say of its end; "" where they say nothing."""
    killed: int | None = None
    """When its containers were told to stop (ns)."""


@dataclass(frozen=True, slots=True)
class Generation:
    """Pods of different replicas that ran at about the same time, before those that took their place."""

    pods: tuple[GonePod, ...]
    until: int | None
    """When the first of the next ones was there (ns)."""
    why: str = ""
    meant: bool = False
    """They were ended on purpose: by a suspend, or because the job got fewer workers."""

    @property
    def began(self) -> int:
        """When the first of them ran (ns)."""
        return self.pods[0].started

    @property
    def over(self) -> int | None:
        """When all of them had surely ended (ns), where that is known."""
        ends = [pod.killed for pod in self.pods]
        return self.until or (None if None in ends else max(end for end in ends if end is not None))


def replaced_pods(
    events: Collection[Obj],
    job: str,
    is_own: Callable[[Obj], bool],
    replica_of: Callable[[str], str],
    present: Iterable[LoggedPod],
) -> list[Generation]:
    """Pods of the job with the uid `job` that ran, and are not `present`, the oldest first.

    `is_own` says whether an event is about a pod with a name as the job's have; `replica_of` which replica a
    pod's name stands for, or "".
    """
    now = list(present)
    found = _generations(_gone(events, job, is_own, replica_of, {pod.uid for pod in now}))
    return [_explained(_bounded(each, found[at + 1 :], now), events, job) for at, each in enumerate(found)]


def _gone(
    events: Collection[Obj],
    job: str,
    is_own: Callable[[Obj], bool],
    replica_of: Callable[[str], str],
    present: Collection[str],
) -> list[GonePod]:
    said = (CREATED.fullmatch(text(each.get("message"))) for each in events if _about(each).get("uid") == job)
    made = {match["pod"] for match in said if match is not None}
    started: dict[str, tuple[int, str]] = {}
    ends: dict[str, str] = {}
    killed: dict[str, int | None] = {}
    for event in events:
        about = _about(event)
        uid, name = str(about.get("uid") or ""), str(about.get("name") or "")
        if about.get("kind") != "Pod" or not uid or uid in present or not (name in made or is_own(event)):
            continue
        reason, at = str(event.get("reason") or ""), _first_seen(event)
        if reason == "Started" and at is not None:
            started[uid] = min(started.get(uid, (at, name)), (at, name))
        elif reason == "Killing":
            killed[uid] = _stamp(event.get("lastTimestamp")) or at
        elif reason in _CAUSES:
            ends[uid] = f"{reason}: {text(event.get('message'))}"
    found = [
        GonePod(name, replica_of(name) or name, at, ends.get(uid, ""), killed.get(uid))
        for uid, (at, name) in started.items()
    ]
    return sorted(found, key=lambda pod: (pod.started, pod.name))


def _generations(pods: Iterable[GonePod]) -> list[Generation]:
    """The first pods of each replica together, then the second ones, and so on."""
    found: list[list[GonePod]] = []
    counts: dict[str, int] = {}
    for pod in pods:
        number = counts[pod.replica] = counts.get(pod.replica, -1) + 1
        if number == len(found):
            found.append([])
        found[number].append(pod)
    return [Generation(tuple(each), None) for each in found]


def _bounded(mine: Generation, later: Sequence[Generation], present: Iterable[LoggedPod]) -> Generation:
    replicas = {pod.replica for pod in mine.pods}
    starts = [pod.started for each in later[:1] for pod in each.pods if pod.replica in replicas]
    if not starts:
        starts = [pod.created for pod in present if pod.replica in replicas and pod.created is not None]
    return replace(mine, until=min((at for at in starts if at >= mine.began), default=None))


def _explained(mine: Generation, events: Collection[Obj], job: str) -> Generation:
    own = next((pod.why for pod in mine.pods if pod.why), "")
    if own:
        return replace(mine, why=own)
    # Events are in whole seconds, and an operator says why before it makes the next pods.
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
        # What the operator says of a restart then is about other pods, or about how these ended.
        return replace(mine, why="scaled down", meant=True)
    return replace(mine, why=causes.get(True, ""))


def _removed(pod: GonePod, events: Iterable[Obj], job: str) -> bool:
    """Whether its operator deleted the pod while it ran."""
    for event in events if pod.killed is not None else ():
        found = DELETED.fullmatch(text(event.get("message")))
        if found is None or found["pod"] != pod.name or _about(event).get("uid") != job:
            continue
        if any(abs((pod.killed or 0) - at) <= STOPS_WITHIN for at in _times(event, [pod])):
            return True
    return False


def _times(event: Obj, pods: Iterable[GonePod]) -> list[int]:
    """When an event was seen: of one that was counted often, also with a pod's end between the two."""
    first, last = _first_seen(event), _stamp(event.get("lastTimestamp"))
    count = event.get("count")
    found = [at for at in (first, last) if at is not None]
    if first is not None and last is not None and isinstance(count, int) and count > len(found):
        found += [pod.killed for pod in pods if pod.killed is not None and first <= pod.killed <= last]
    return found


def _about(event: Obj) -> Mapping[str, Any]:
    return mapping(event.get("involvedObject"))


def _first_seen(event: Obj) -> int | None:
    meta = mapping(event.get("metadata"))
    times = (event.get("firstTimestamp"), event.get("eventTime"), meta.get("creationTimestamp"))
    return next((stamp for stamp in map(_stamp, times) if stamp), None)


def _stamp(value: object) -> int | None:
    return stamp_of(value) if isinstance(value, str) and value else None
