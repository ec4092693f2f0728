"""The failures of deleted pods, from their last known state and from Events of pods, job and nodes.

An operator that restarts a replica deletes the failed pod immediately and reports only that a replica failed.
Events still name the pod, its node and its exit code; a cluster stores them for an hour.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar

from tui.domain.kubernetes.failures.events import (
    CREATED,
    CREATED_POD,
    DELETED,
    DELETED_POD,
    ENDS,
    EXITED,
    KERNEL_KILLS,
    KILLING,
    NODE_GOES,
    STOPPING,
    ClusterEvent,
    EventIndex,
    seconds,
)
from tui.domain.kubernetes.failures.failure import DELETED_BY_SOMEBODY, ReplicaFailure, failure_of
from tui.domain.kubernetes.pods import Pod, words_of

EVENTS_KEPT = timedelta(hours=1)
"""Default time for which a cluster stores an Event after its last occurrence."""
NEAR = timedelta(seconds=30)
"""Maximum time between a node's Event and the end of a pod that the Event explains, because the clocks of
nodes differ."""
_SECOND = timedelta(seconds=1)
"""Resolution of Event times."""
_STOPS_WITHIN = timedelta(seconds=15)
"""Maximum delay before the kubelet stops a deleted pod."""
_LEAVES_WITHIN = timedelta(minutes=2)
"""Time within which peers may exit after a checkpoint, before they restart without a removed worker."""
LEFT_WITH_CHECKPOINT = 203
"""Exit code of the trainer after a signal or a change of workers, after which it resumes from a
checkpoint."""
_EXITED = re.compile(r"Pod: [^. ]+\.(?P<pod>\S+) exited with code (?P<code>-?\d+)")
_ERROR = re.compile(r"Error pod (?P<pod>\S+) container (?P<container>\S+) exitCode: (?P<code>-?\d+)")
_CANCELLED = "Cancelling"
"""Prefix of the taint manager's message that a pod stays."""
_NO_CODE = 0xBEEF
"""The Training Operator's value for an unknown exit code."""
_KILLED = 137
_ENDS_WITH_NODE = frozenset({"NodeShutdown", "TaintManagerEviction"})
"""Reasons that follow from the end of the node."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OwningJob:
    """The job that owns the pods, and the names of its replicas."""

    namespace: str
    kind: str
    name: str
    uid: str
    created: datetime | None
    groups: Mapping[str, int]
    """The job's replica groups, with the number of pods in one Job of each group."""
    spot: Collection[str] = ()
    """Groups whose pods are on Spot nodes."""
    restarts: int = 0
    """Number of times that a JobSet recreated all its Jobs."""

    def replica(self, group: str, job_index: int, index: int) -> str:
        """Return the id of a replica."""
        group = group if group in self.groups or group else next(iter(self.groups), "worker")
        return f"{group}-{job_index * self.groups.get(group, 1) + index}"

    def replica_of(self, pod: str) -> str:
        """Return the id of the replica in a pod's name, or "" for a pod of another job. The Training
        Operator's names are `JOB-worker-3`, a JobSet's `JOB-node-0-3-x7k2p`, a batch Job's `JOB-3-x7k2p`."""
        rest = pod.removeprefix(f"{self.name}-")
        for group in self.groups:
            match = re.fullmatch(rf"{re.escape(group)}(?:-(\d+))?(?:-(\d+))?(?:-[a-z0-9]{{5}})?", rest)
            if match is not None and match[2] is not None:
                return self.replica(group, int(match[1]), int(match[2]))
            if match is not None:
                return self.replica(group, 0, int(match[1] or 0))
        match = re.fullmatch(r"(?:(\d+)-)?[a-z0-9]{5}", rest) if self.kind == "Job" else None
        return self.replica("", 0, int(match[1] or 0)) if match is not None else ""


@dataclass(slots=True)
class _Run:
    """One deleted pod."""

    uid: str
    name: str
    replica: str
    began: datetime | None = None
    node: str = ""
    killed: datetime | None = None
    """Time at which the pod's containers got the signal to stop."""
    cause: ClusterEvent | None = None
    """The Event that explains the pod's end."""
    seen: Pod | None = None
    until: datetime | None = None
    """Creation time of the replica's next pod."""

    def during(self, event: ClusterEvent) -> bool:
        """Return whether an Event was recorded while the pod existed."""
        after = self.began is None or event.last is None or event.last >= self.began - _SECOND
        return after and (self.until is None or event.first is None or event.first <= self.until + _SECOND)

    def time(self, event: ClusterEvent) -> datetime | None:
        """Return the last time of an Event within the pod's life."""
        late = self.until is not None and event.last is not None and event.last > self.until + _SECOND
        return event.first if late else event.last


_Exit = tuple[int, ClusterEvent]
"""An exit code, and the Event that reports it."""
_Error = tuple[re.Match[str], ClusterEvent]
"""A match of a container's error, and its Event."""


@dataclass(slots=True)
class _Reports:
    """The Events about a job that mention its pods, by pod name."""

    exits: dict[str, list[_Exit]] = field(default_factory=dict)
    errors: dict[str, list[_Error]] = field(default_factory=dict)
    created: Counter[str] = field(default_factory=Counter)
    deleted: dict[str, ClusterEvent] = field(default_factory=dict)
    """The operator's Events about deleted pods; one Event counts repeated deletions."""

    def removes(self, run: _Run, failure: ReplicaFailure | None) -> bool:
        """Return whether the operator deleted a healthy pod while it ran. The operator deletes failed pods
        too, but these do not stop, or another Event explains their end."""
        event, killed = self.deleted.get(run.name), run.killed
        if killed is None or event is None or event.first is None or event.last is None:
            return False
        if failure is not None and failure.reason not in {"", "Error", DELETED_BY_SOMEBODY}:
            return False
        early, late = killed - _STOPS_WITHIN, killed + _SECOND
        # The API does not store times between the first and the last occurrence.
        between = event.count > 2 and event.first <= killed <= event.last
        return between or any(early <= at <= late for at in (event.first, event.last))


@dataclass(frozen=True, slots=True)
class Replaced:
    """The history of a job's deleted pods."""

    failures: Sequence[ReplicaFailure]
    """The last failure of each replica, with the number of its failed pods."""
    removed: Mapping[str, datetime]
    """The last time at which the operator ended a replica on purpose, by replica id."""

    def leaves(self, failure: ReplicaFailure) -> bool:
        """Return whether a replica only exited after a checkpoint because others were removed."""
        return _leaves(failure, self.removed.values())


def replaced_pods(
    owner: OwningJob, pods: Sequence[Pod], seen: Iterable[Pod], events: EventIndex | None
) -> Replaced:
    """Return the history of the job's pods outside `pods`; `seen` are pods that failed and were replaced."""
    reports = _reports_of(owner, events) if events is not None else _Reports()
    ends = [(run, _failure(run, reports, events, owner)) for run in _runs(owner, pods, seen, events)]
    removed: dict[str, datetime] = {}
    for run, failure in ends:
        if run.killed is not None and reports.removes(run, failure):
            removed[run.replica] = max(run.killed, removed.get(run.replica, run.killed))
    failures: dict[str, list[ReplicaFailure]] = {}
    intended: Counter[str] = Counter()
    for run, failure in ends:
        if failure is None or reports.removes(run, failure) or _leaves(failure, removed.values()):
            intended[run.name] += failure is not None or run.killed is not None
        else:
            failures.setdefault(run.replica, []).append(failure)
    merged = []
    counts = _counts(pods, reports, intended)
    for name, count in counts.items():
        replica = owner.replica_of(name)
        if count and replica and replica not in failures:
            # The API has no data about the pods themselves.
            failure = _failure(_Run("", name, replica), reports, events, owner)
            failures[replica] = [failure or ReplicaFailure(replica)]
    by_replica = {owner.replica_of(name): count for name, count in counts.items()}
    for replica, replica_failures in failures.items():
        # An operator reports the exit code of a pod repeatedly, so neither count alone is the number of pods.
        count = max(len(replica_failures), by_replica.get(replica, 0))
        merged += [*replica_failures[:-1], replace(replica_failures[-1], count=count)]
    return Replaced(merged, removed)


def _leaves(failure: ReplicaFailure, removed: Iterable[datetime]) -> bool:
    at = failure.at
    if at is None or failure.exit_code != LEFT_WITH_CHECKPOINT or failure.reason not in {"", "Error"}:
        return False
    return any(-_STOPS_WITHIN <= at - time <= _LEAVES_WITHIN for time in removed)


def counts_all(owner: OwningJob, pods: Iterable[Pod], events: EventIndex) -> bool:
    """Return whether Events cover all predecessors of `pods`, from the first pod of each name on."""
    since: dict[str, datetime | None] = {}
    for event in events.about(owner.namespace, owner.kind, owner.name):
        match = CREATED.match(event.message) if event.reason == CREATED_POD else None
        if match is not None:
            since[match["pod"]] = event.first
    return all(pod.name in since and not _before(_later(owner.created), since[pod.name]) for pod in pods)


def _later(time: datetime | None) -> datetime | None:
    return time + EVENTS_KEPT if time is not None else None


def _runs(
    owner: OwningJob, pods: Sequence[Pod], seen: Iterable[Pod], events: EventIndex | None
) -> list[_Run]:
    """Return the deleted pods, oldest first."""
    present = {pod.uid for pod in pods}
    runs: dict[str, _Run] = {}
    for pod in seen:
        if pod.uid not in present:
            replica = owner.replica(pod.group, pod.job_index, pod.index or 0)
            runs[pod.uid] = _Run(pod.uid, pod.name, replica, pod.created, pod.node, seen=pod)
    names = events.pods(owner.namespace, f"{owner.name}-") if events is not None else ()
    for name in names:
        replica = owner.replica_of(name)
        for event in events.about(owner.namespace, "Pod", name) if replica and events is not None else ():
            if event.uid in present or not event.uid or _before(event.last, owner.created):
                continue
            run = runs.setdefault(event.uid, _Run(event.uid, name, replica))
            _take(run, event)
    starts: dict[str, list[datetime]] = {}
    for run in runs.values():
        starts.setdefault(run.replica, []).extend([run.began] if run.began else ())
    for pod in pods:
        replica = owner.replica(pod.group, pod.job_index, pod.index or 0)
        starts.setdefault(replica, []).extend([pod.created] if pod.created else ())
    for run in runs.values():
        later = [at for at in starts[run.replica] if run.began is not None and at > run.began]
        run.until = min(later, default=None)
    return sorted(runs.values(), key=lambda run: (seconds(run.began), run.name))


def _take(run: _Run, event: ClusterEvent) -> None:
    if event.node:
        run.node, run.began = event.node, event.first
    elif event.reason == KILLING and event.message.startswith(STOPPING):
        run.killed = event.last
    elif event.reason in ENDS and not event.message.startswith(_CANCELLED):
        # The kubelet's reason is more exact than a taint that would have ended the pod.
        known = run.cause
        run.cause = event if known is None or known.reason in _ENDS_WITH_NODE else known


def _reports_of(owner: OwningJob, events: EventIndex) -> _Reports:
    reports = _Reports()
    for event in events.about(owner.namespace, owner.kind, owner.name):
        if (event.uid and event.uid != owner.uid) or _before(event.last, owner.created):
            continue
        exited = _EXITED.match(event.message) if event.reason == EXITED else None
        error, created = _ERROR.match(event.message), CREATED.match(event.message)
        if exited is not None and int(exited["code"]):
            reports.exits.setdefault(exited["pod"], []).append((int(exited["code"]), event))
        elif error is not None:
            reports.errors.setdefault(error["pod"], []).append((error, event))
        elif created is not None and event.reason == CREATED_POD:
            reports.created[created["pod"]] += event.count
        elif event.reason == DELETED_POD and (deleted := DELETED.match(event.message)) is not None:
            reports.deleted[deleted["pod"]] = event
    return reports


def _counts(pods: Iterable[Pod], reports: _Reports, removed: Mapping[str, int]) -> dict[str, int]:
    """Return the number of failed deleted pods by name, where the job's Events count them. `removed` is the
    number of pods that were ended on purpose, by name."""
    present = Counter(pod.name for pod in pods)
    counts = {}
    for name, created in reports.created.items():
        failed = sum(event.count for _, event in reports.exits.get(name, ()))
        counts[name] = max(0, min(created - present[name] - removed.get(name, 0), failed))
    return counts


def _failure(
    run: _Run, reports: _Reports, events: EventIndex | None, owner: OwningJob
) -> ReplicaFailure | None:
    """Return the failure of a deleted pod, or None if it was only removed."""
    if run.seen is not None and run.seen.reason not in {"", "Error"} and not _said_better(run):
        return failure_of(run.seen, run.replica)
    exit_, error = _last(run, reports.exits.get(run.name, ())), _last(run, reports.errors.get(run.name, ()))
    base = _with_code(run, exit_, error)
    near = base.at or (run.cause.last if run.cause else None) or run.killed
    around = events.of_node(run.node) if events is not None and run.node else []
    cause = _reason(run, base, error, [event for event in around if _about(run, event, near)])
    if cause is not None:
        reason, event = cause
        own = event is run.cause and event is not None
        spot = run.replica.rpartition("-")[0] in owner.spot or bool(run.seen and run.seen.spot)
        words = words_of(reason, event.message if own and event is not None else "", spot=spot)
        at = base.at or near or (run.time(event) if event is not None else None)
        return replace(base, at=at, words=words, reason=reason)
    if run.killed is not None and (run.seen is not None or exit_ is not None or error is not None):
        return replace(base, words="deleted", reason=DELETED_BY_SOMEBODY)
    if base.exit_code == _KILLED:
        return replace(base, words="killed (SIGKILL), often for using too much memory")
    if run.seen is not None or exit_ is not None or error is not None:
        return base
    # A JobSet recreated the pod, but nothing stopped it: it ended by itself.
    ended = owner.restarts and run.killed is None and run.until is not None
    return replace(base, words="its exit code is unknown") if ended else None


def _said_better(run: _Run) -> bool:
    """Return whether an Event, which may arrive after the pod's last state, explains the end of its node."""
    vague = run.seen is not None and run.seen.reason in {"NodeLost", "ContainerStatusUnknown"}
    return vague and run.cause is not None and run.cause.reason not in _ENDS_WITH_NODE


def _with_code(run: _Run, exit_: _Exit | None, error: _Error | None) -> ReplicaFailure:
    """Return the pod's failure with time, exit code and container."""
    base = failure_of(run.seen, run.replica) if run.seen else ReplicaFailure(run.replica)
    if error is not None:
        match = error[0]
        code = int(match["code"]) if base.exit_code is None else base.exit_code
        base = replace(base, at=base.at or run.time(error[1]), exit_code=code, container=match["container"])
    if exit_ is not None:
        code_said = exit_[0] if exit_[0] != _NO_CODE else None
        code_known = base.exit_code if base.exit_code is not None else code_said
        base = replace(base, at=base.at or run.time(exit_[1]), exit_code=code_known)
    return base


def _reason(
    run: _Run, base: ReplicaFailure, error: _Error | None, node: Sequence[ClusterEvent]
) -> tuple[str, ClusterEvent | None] | None:
    """Return the reason for the failure and its Event; Events of the pod precede Events of its node."""
    cause = run.cause
    if cause is not None and cause.reason not in _ENDS_WITH_NODE:
        return cause.reason, cause
    if error is not None and error[1].reason != "Error":
        return error[1].reason, error[1]
    node_end = next((event for event in node if event.reason in NODE_GOES), None)
    if node_end is not None or (cause is not None and cause.reason == "NodeShutdown"):
        return "NodeLost", node_end
    if cause is not None:
        return cause.reason, cause
    killed = next((event for event in node if event.reason in KERNEL_KILLS), None)
    # Of several pods on that node, the pod that nobody stopped was killed.
    if killed is not None and (base.exit_code == _KILLED or (base.exit_code is None and run.killed is None)):
        return "OOMKilled", killed
    return None


def _about(run: _Run, event: ClusterEvent, near: datetime | None) -> bool:
    """Return whether an Event of a node may explain the end of a pod there."""
    if near is None:
        return run.during(event)
    times = [time for time in (event.first, event.last) if time is not None]
    return not times or any(abs(time - near) <= NEAR for time in times)


def _last(run: _Run, reports: Iterable[tuple[T, ClusterEvent]]) -> tuple[T, ClusterEvent] | None:
    """Return the last report from the pod's lifetime."""
    current = [report for report in reports if run.during(report[1])]
    return max(current, key=lambda report: seconds(run.time(report[1])), default=None)


def _before(time: datetime | None, other: datetime | None) -> bool:
    return time is not None and other is not None and time < other
