"""The failures of deleted pods, as they were seen and as Events of pods, job and nodes describe them.

An operator that restarts a replica deletes its failed pod at once, and says of the job only that a replica
failed. Events still name the pod, its node and its exit code; a cluster keeps them for an hour.
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
from tui.domain.kubernetes.failures.failure import DELETED_BY_SOMEBODY, Failure, failure_of
from tui.domain.kubernetes.pods import Pod, words_of

EVENTS_KEPT = timedelta(hours=1)
"""How long a cluster keeps an Event after it was last counted, unless it is set up otherwise."""
NEAR = timedelta(seconds=30)
"""An Event of a node is about a pod that ended so near to it: nodes write times of their own."""
_SECOND = timedelta(seconds=1)
"""Events are in whole seconds."""
_STOPS_WITHIN = timedelta(seconds=15)
"""Longest delay before the kubelet stops a deleted pod."""
_LEAVES_WITHIN = timedelta(minutes=2)
"""Time within which peers may exit after a checkpoint, to start again without a removed worker."""
LEFT_WITH_CHECKPOINT = 203
"""What the trainer ends with after a signal, or when the workers change: it goes on from a checkpoint."""
_EXITED = re.compile(r"Pod: [^. ]+\.(?P<pod>\S+) exited with code (?P<code>-?\d+)")
_ERROR = re.compile(r"Error pod (?P<pod>\S+) container (?P<container>\S+) exitCode: (?P<code>-?\d+)")
_CANCELLED = "Cancelling"
"""How the taint manager begins to say that a pod stays."""
_NO_CODE = 0xBEEF
"""What the Training Operator says of a pod whose container has no exit code."""
_KILLED = 137
_ENDS_WITH_NODE = frozenset({"NodeShutdown", "TaintManagerEviction"})
"""Reasons behind which stands the end of the node."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Owner:
    """The job that the pods are of, and how its replicas are named."""

    namespace: str
    kind: str
    name: str
    uid: str
    created: datetime | None
    groups: Mapping[str, int]
    """Its replica groups, and how many pods of each one Job has."""
    spot: Collection[str] = ()
    """Groups whose pods are on Spot nodes."""
    restarts: int = 0
    """How often all of its Jobs were made anew, which a JobSet counts."""

    def replica(self, group: str, job_index: int, index: int) -> str:
        """The id of a replica."""
        group = group if group in self.groups or group else next(iter(self.groups), "worker")
        return f"{group}-{job_index * self.groups.get(group, 1) + index}"

    def replica_of(self, pod: str) -> str:
        """The id of the replica that a pod's name stands for; "" for a pod of another job.

        `JOB-worker-3` is one of the Training Operator, `JOB-node-0-3-x7k2p` of a JobSet, `JOB-3-x7k2p` of a
        batch Job.
        """
        rest = pod.removeprefix(f"{self.name}-")
        for group in self.groups:
            found = re.fullmatch(rf"{re.escape(group)}(?:-(\d+))?(?:-(\d+))?(?:-[a-z0-9]{{5}})?", rest)
            if found is not None and found[2] is not None:
                return self.replica(group, int(found[1]), int(found[2]))
            if found is not None:
                return self.replica(group, 0, int(found[1] or 0))
        found = re.fullmatch(r"(?:(\d+)-)?[a-z0-9]{5}", rest) if self.kind == "Job" else None
        return self.replica("", 0, int(found[1] or 0)) if found is not None else ""


@dataclass(slots=True)
class _Run:
    """One pod that is gone."""

    uid: str
    name: str
    replica: str
    began: datetime | None = None
    node: str = ""
    killed: datetime | None = None
    """When its containers were told to stop."""
    cause: ClusterEvent | None = None
    """What says why it ended."""
    seen: Pod | None = None
    until: datetime | None = None
    """When the next pod of its replica was there."""

    def during(self, event: ClusterEvent) -> bool:
        """Whether an Event was seen while it was there."""
        after = self.began is None or event.last is None or event.last >= self.began - _SECOND
        return after and (self.until is None or event.first is None or event.first <= self.until + _SECOND)

    def time(self, event: ClusterEvent) -> datetime | None:
        """When an Event was seen last while it was there."""
        late = self.until is not None and event.last is not None and event.last > self.until + _SECOND
        return event.first if late else event.last


_Exit = tuple[int, ClusterEvent]
"""An exit code, and what says it."""
_Error = tuple[re.Match[str], ClusterEvent]
"""What is wrong with a container of a pod."""


@dataclass(slots=True)
class _Told:
    """What the Events about a job say of its pods, by the pod's name."""

    exits: dict[str, list[_Exit]] = field(default_factory=dict)
    errors: dict[str, list[_Error]] = field(default_factory=dict)
    created: Counter[str] = field(default_factory=Counter)
    deleted: dict[str, ClusterEvent] = field(default_factory=dict)
    """That the operator deleted pods, which it says again and again in one Event."""

    def removes(self, run: _Run, failure: Failure | None) -> bool:
        """Whether the operator deleted a pod while it ran and nothing was wrong with it.

        One that failed is deleted too, but nobody tells it to stop, or something else says why it ended.
        """
        event, killed = self.deleted.get(run.name), run.killed
        if killed is None or event is None or event.first is None or event.last is None:
            return False
        if failure is not None and failure.reason not in {"", "Error", DELETED_BY_SOMEBODY}:
            return False
        early, late = killed - _STOPS_WITHIN, killed + _SECOND
        # The times between the first and the last are not kept.
        between = event.count > 2 and event.first <= killed <= event.last
        return between or any(early <= at <= late for at in (event.first, event.last))


@dataclass(frozen=True, slots=True)
class Replaced:
    """What happened to the deleted pods of a job."""

    failures: Sequence[Failure]
    """With the number of those pods for each replica."""
    removed: Mapping[str, datetime]
    """When the operator last ended a replica on purpose, by its id."""

    def leaves(self, failure: Failure) -> bool:
        """Whether a replica only left because others were removed, after a checkpoint."""
        return _leaves(failure, self.removed.values())


def replaced_pods(
    owner: Owner, pods: Sequence[Pod], seen: Iterable[Pod], events: EventIndex | None
) -> Replaced:
    """What became of the pods of a job that are not among `pods`; `seen` failed before they were replaced."""
    told = _told(owner, events) if events is not None else _Told()
    ends = [(run, _failure(run, told, events, owner)) for run in _runs(owner, pods, seen, events)]
    removed: dict[str, datetime] = {}
    for run, failure in ends:
        if run.killed is not None and told.removes(run, failure):
            removed[run.replica] = max(run.killed, removed.get(run.replica, run.killed))
    found: dict[str, list[Failure]] = {}
    meant: Counter[str] = Counter()
    for run, failure in ends:
        if failure is None or told.removes(run, failure) or _leaves(failure, removed.values()):
            meant[run.name] += failure is not None or run.killed is not None
        else:
            found.setdefault(run.replica, []).append(failure)
    made = []
    counts = _counts(pods, told, meant)
    for name, count in counts.items():
        replica = owner.replica_of(name)
        if count and replica and replica not in found:
            # Of its pods themselves nothing is kept any more.
            failure = _failure(_Run("", name, replica), told, events, owner)
            found[replica] = [failure or Failure(replica)]
    by_replica = {owner.replica_of(name): count for name, count in counts.items()}
    for replica, each in found.items():
        # An operator says the exit code of a pod again and again: neither number alone is that of the pods.
        count = max(len(each), by_replica.get(replica, 0))
        made += [*each[:-1], replace(each[-1], count=count)]
    return Replaced(made, removed)


def _leaves(failure: Failure, removed: Iterable[datetime]) -> bool:
    at = failure.at
    if at is None or failure.exit_code != LEFT_WITH_CHECKPOINT or failure.reason not in {"", "Error"}:
        return False
    return any(-_STOPS_WITHIN <= at - time <= _LEAVES_WITHIN for time in removed)


def counts_all(owner: Owner, pods: Iterable[Pod], events: EventIndex) -> bool:
    """Whether Events tell of every pod that these took the place of, from the first of each name on."""
    since: dict[str, datetime | None] = {}
    for event in events.about(owner.namespace, owner.kind, owner.name):
        found = CREATED.match(event.message) if event.reason == CREATED_POD else None
        if found is not None:
            since[found["pod"]] = event.first
    return all(pod.name in since and not _before(_later(owner.created), since[pod.name]) for pod in pods)


def _later(time: datetime | None) -> datetime | None:
    return time + EVENTS_KEPT if time is not None else None


def _runs(owner: Owner, pods: Sequence[Pod], seen: Iterable[Pod], events: EventIndex | None) -> list[_Run]:
    """The pods that are gone, the oldest first."""
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
        # What a kubelet says of its pod counts more than that a taint would have ended it.
        known = run.cause
        run.cause = event if known is None or known.reason in _ENDS_WITH_NODE else known


def _told(owner: Owner, events: EventIndex) -> _Told:
    told = _Told()
    for event in events.about(owner.namespace, owner.kind, owner.name):
        if (event.uid and event.uid != owner.uid) or _before(event.last, owner.created):
            continue
        exited = _EXITED.match(event.message) if event.reason == EXITED else None
        error, created = _ERROR.match(event.message), CREATED.match(event.message)
        if exited is not None and int(exited["code"]):
            told.exits.setdefault(exited["pod"], []).append((int(exited["code"]), event))
        elif error is not None:
            told.errors.setdefault(error["pod"], []).append((error, event))
        elif created is not None and event.reason == CREATED_POD:
            told.created[created["pod"]] += event.count
        elif event.reason == DELETED_POD and (deleted := DELETED.match(event.message)) is not None:
            told.deleted[deleted["pod"]] = event
    return told


def _counts(pods: Iterable[Pod], told: _Told, removed: Mapping[str, int]) -> dict[str, int]:
    """Pods that failed and are gone by their name, as far as the numbers in Events of the job say it.

    `removed` ones were ended on purpose.
    """
    present = Counter(pod.name for pod in pods)
    counts = {}
    for name, made in told.created.items():
        failed = sum(event.count for _, event in told.exits.get(name, ()))
        counts[name] = max(0, min(made - present[name] - removed.get(name, 0), failed))
    return counts


def _failure(run: _Run, told: _Told, events: EventIndex | None, owner: Owner) -> Failure | None:
    """How a pod failed that is gone; None for one that was only taken away."""
    if run.seen is not None and run.seen.reason not in {"", "Error"} and not _said_better(run):
        return failure_of(run.seen, run.replica)
    exit_, error = _last(run, told.exits.get(run.name, ())), _last(run, told.errors.get(run.name, ()))
    base = _with_code(run, exit_, error)
    near = base.at or (run.cause.last if run.cause else None) or run.killed
    around = events.of_node(run.node) if events is not None and run.node else []
    found = _reason(run, base, error, [each for each in around if _about(run, each, near)])
    if found is not None:
        reason, event = found
        own = event is run.cause and event is not None
        spot = run.replica.rpartition("-")[0] in owner.spot or bool(run.seen and run.seen.spot)
        words = words_of(reason, event.message if own and event is not None else "", spot=spot)
        at = base.at or near or (run.time(event) if event is not None else None)
        return replace(base, at=at, words=words, reason=reason)
    if run.killed is not None and (run.seen is not None or exit_ is not None or error is not None):
        return replace(base, words="deleted", reason=DELETED_BY_SOMEBODY)
    if base.exit_code == _KILLED:
        return replace(base, words="killed (SIGKILL), often for too much memory")
    if run.seen is not None or exit_ is not None or error is not None:
        return base
    # One that a JobSet made anew, and that nobody had stopped, ended by itself.
    ended = owner.restarts and run.killed is None and run.until is not None
    return replace(base, words="its exit code is not kept") if ended else None


def _said_better(run: _Run) -> bool:
    """Whether an Event, which may come after the pod was seen last, says what stood behind its node's end."""
    vague = run.seen is not None and run.seen.reason in {"NodeLost", "ContainerStatusUnknown"}
    return vague and run.cause is not None and run.cause.reason not in _ENDS_WITH_NODE


def _with_code(run: _Run, exit_: _Exit | None, error: _Error | None) -> Failure:
    """When it failed, and with which exit code in which container."""
    base = failure_of(run.seen, run.replica) if run.seen else Failure(run.replica)
    if error is not None:
        said = error[0]
        code = int(said["code"]) if base.exit_code is None else base.exit_code
        base = replace(base, at=base.at or run.time(error[1]), exit_code=code, container=said["container"])
    if exit_ is not None:
        code_said = exit_[0] if exit_[0] != _NO_CODE else None
        code_known = base.exit_code if base.exit_code is not None else code_said
        base = replace(base, at=base.at or run.time(exit_[1]), exit_code=code_known)
    return base


def _reason(
    run: _Run, base: Failure, error: _Error | None, node: Sequence[ClusterEvent]
) -> tuple[str, ClusterEvent | None] | None:
    """Why it failed, and the Event that says so: what is said of itself before what is said of its node."""
    cause = run.cause
    if cause is not None and cause.reason not in _ENDS_WITH_NODE:
        return cause.reason, cause
    if error is not None and error[1].reason != "Error":
        return error[1].reason, error[1]
    gone = next((each for each in node if each.reason in NODE_GOES), None)
    if gone is not None or (cause is not None and cause.reason == "NodeShutdown"):
        return "NodeLost", gone
    if cause is not None:
        return cause.reason, cause
    killed = next((each for each in node if each.reason in KERNEL_KILLS), None)
    # Of several pods on that node it is the one that nobody had stopped.
    if killed is not None and (base.exit_code == _KILLED or (base.exit_code is None and run.killed is None)):
        return "OOMKilled", killed
    return None


def _about(run: _Run, event: ClusterEvent, near: datetime | None) -> bool:
    """Whether an Event of a node may be about the end of a pod there."""
    if near is None:
        return run.during(event)
    times = [time for time in (event.first, event.last) if time is not None]
    return not times or any(abs(time - near) <= NEAR for time in times)


def _last(run: _Run, told: Iterable[tuple[T, ClusterEvent]]) -> tuple[T, ClusterEvent] | None:
    """The last of these that was said while the pod was there."""
    found = [each for each in told if run.during(each[1])]
    return max(found, key=lambda each: seconds(run.time(each[1])), default=None)


def _before(time: datetime | None, other: datetime | None) -> bool:
    return time is not None and other is not None and time < other
