"""Build the domain `Job` of a cluster's job from its object, its pods and, for a TrainJob, its runtime."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from tui.domain.core.diagnosis import Diagnosis
from tui.domain.core.job import Job, JobError, infer_replicas
from tui.domain.core.replica import INSTANCE_TYPE, NodeShare, Replica, ReplicaGroup
from tui.domain.core.states import JobState
from tui.domain.kubernetes.changes import worker_bounds
from tui.domain.kubernetes.conditions import (
    Status,
    condition,
    conditions_of,
    resumed_at,
    status_of,
    time_of,
)
from tui.domain.kubernetes.failures.advice import advice, container_of
from tui.domain.kubernetes.failures.events import EventIndex
from tui.domain.kubernetes.failures.failure import (
    ReplicaFailure,
    failed_by_itself,
    failure_of,
    newest_by_replica,
    newest_incident,
    restarted_in_place,
)
from tui.domain.kubernetes.failures.reason import AT_WORK, reason_of
from tui.domain.kubernetes.failures.replaced import OwningJob, Replaced, counts_all, replaced_pods
from tui.domain.kubernetes.names import JobName
from tui.domain.kubernetes.pods import Pod, reason_words
from tui.domain.kubernetes.waiting import Wait, cannot_start
from tui.domain.kubernetes.workloads import (
    GPU,
    ManifestGroup,
    WorkloadKind,
    accelerator,
    at,
    fields,
    gpus,
    groups,
    is_spot,
    tpus,
    whole,
)
from tui.domain.masking import mask_text

Obj = Mapping[str, Any]
_ROLES = {"ps": "parameter server", "master": "primary", "chief": "primary", "launcher": "launcher"}
_UNKNOWN_CODE = 2
"""google.rpc.Code UNKNOWN: Kubernetes has no code for the cause of a job's failure."""
_LONGEST = 600


@dataclass(frozen=True, slots=True)
class RelatedObjects:
    """Objects related to a job, besides its own object."""

    pods: Sequence[Pod] = ()
    job_set: Obj | None = None
    """The JobSet of a TrainJob."""
    runtime: Obj | None = None
    """The (Cluster)TrainingRuntime of a TrainJob."""
    waiting: tuple[Wait, ...] = ()
    seen: Sequence[Pod] = ()
    """Failed pods, in their last state before their replacement."""
    events: EventIndex | None = None
    """Events of the job's namespace and of nodes, or None if they can't be read."""
    workload: Obj | None = None
    """The Workload of a job in a queue."""
    nodes: tuple[NodeShare, ...] = ()
    """The nodes that run the job's pods."""
    started: datetime | None = None
    """First time at which the job was seen running, because its status has no start after its end."""


def job_of(
    obj: Obj, kind: WorkloadKind, context: str, cluster: str, related: RelatedObjects | None = None
) -> Job:
    """Convert a job object to a domain `Job`."""
    related = related or RelatedObjects()
    metadata = fields(obj, "metadata")
    name, namespace = str(metadata.get("name") or ""), str(metadata.get("namespace") or "")
    status = status_of(obj, kind.key)
    parts = replica_groups(obj, related)
    restarts = _set_restarts(obj, related)
    owner = _owner(obj, parts, related, restarts)
    gone = replaced_pods(owner, related.pods, related.seen, related.events)
    failures = _until(_end_time(obj, status), _failures(parts, owner, related, gone))
    error = _error(status, failures)
    incident = newest_incident(failures)
    first = incident.first if incident is not None else None
    job_groups = tuple(part.group for part in parts)
    shown = with_failures(
        replicas(parts, related.pods, status.state, error, cleaned=_cleans_up(obj)), failures, status.state
    )
    down = status.state is JobState.RUNNING and any(
        first is not None and replica.id == first.replica and replica.state is JobState.FAILED
        for replica in shown
    )
    waits = status.state in _WAITS or (
        status.state is JobState.RUNNING and any(map(cannot_start, related.pods))
    )
    waiting = related.waiting if waits else ()
    started = start_time(obj, status, related)
    return Job(
        name=str(JobName(cluster, namespace, kind.plural, name)),
        id=name,
        display_name=name,
        state=status.state,
        native_state=status.native,
        context=context,
        region=namespace,
        kind=kind.key,
        create_time=time_of(metadata.get("creationTimestamp")),
        start_time=started,
        end_time=_end_time(obj, status),
        update_time=_update_time(obj),
        resume_time=resumed_at(obj, related.workload),
        attempt_time=attempt_time(obj, started, related),
        labels={str(k): str(v) for k, v in fields(metadata, "labels").items()},
        error=error,
        groups=job_groups,
        nodes=related.nodes,
        strategy="SPOT" if any(part.spot for part in parts) else "STANDARD",
        timeout=_timeout(obj),
        replicas=tuple(_again(replica, restarts) for replica in shown),
        reason=mask_text(reason_of(status, failures, gone.removed, restarts, down=down)),
        waiting=tuple(mask_text(wait.words) for wait in waiting),
        diagnosis=_diagnosis(obj, related, JobState.FAILED if down else status.state, first, waiting),
        restarts_note=_restarts_note(obj, owner, related),
    )


def _diagnosis(
    obj: Obj, related: RelatedObjects, state: JobState, first: ReplicaFailure | None, waiting: Sequence[Wait]
) -> Diagnosis | None:
    """Return the next step: the requirement of a waiting job, or the remedy for the job's last failure.
    `state` is the state of the job, or FAILED if the failed replica has not restarted so far."""
    if state is JobState.SUSPENDED:
        name = fields(obj, "metadata").get("name")
        return Diagnosis("", f"Resume the job: U, or `vxtui resume {name}`.", keys="Resume it: U.")
    fix = mask_text(" ".join(dict.fromkeys(wait.step for wait in waiting if wait.step)))
    waits = Diagnosis("", fix, short=waiting[0].short) if waiting else None
    if fix or first is None or state not in {*AT_WORK, JobState.FAILED}:
        return waits
    kind = str(obj.get("kind") or "")
    return advice(first, container_of(obj, related.job_set, first), state, kind) or waits


_WAITS = frozenset({JobState.QUEUED, JobState.PENDING, JobState.RESTARTING})


@dataclass(frozen=True, slots=True)
class GroupLayout:
    """A replica group, and the number of pods in one Job of the group."""

    group: ReplicaGroup
    per_job: int = 1
    spot: bool = False


def replica_groups(obj: Obj, related: RelatedObjects) -> list[GroupLayout]:
    """Return a job's replica groups; a TrainJob's come from its JobSet, or from its runtime."""
    own = groups(obj)
    if obj.get("kind") != "TrainJob":
        return [_part(group, obj) for group in own]
    if related.job_set is not None:
        return [_part(group, related.job_set) for group in groups(related.job_set)]
    return _of_runtime(obj, related.runtime)


def _of_runtime(obj: Obj, runtime: Obj | None) -> list[GroupLayout]:
    """Return the groups of a TrainJob before its JobSet exists."""
    trainer = fields(obj, "spec", "trainer")
    default = whole(at(runtime, "spec", "mlPolicy", "numNodes")) or 1
    nodes = whole(trainer.get("numNodes")) or default
    count = _gpus_of(fields(trainer, "resourcesPerNode"))
    template = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "spec": fields(runtime, "spec", "template", "spec"),
    }  # fmt: skip
    parts = [_part(group, template) for group in groups(template)]
    if not parts:
        image = str(trainer.get("image") or "")
        return [GroupLayout(ReplicaGroup("node", "worker", nodes, "", "GPU" if count else "", count, image))]
    return [
        GroupLayout(
            _as_trainer(part.group, nodes, count, str(trainer.get("image") or "")), part.per_job, part.spot
        )
        if part.group.name == "node"
        else part
        for part in parts
    ]


def _as_trainer(group: ReplicaGroup, nodes: int, count: int, image: str) -> ReplicaGroup:
    kind = group.accelerator_type or ("GPU" if count else "")
    return ReplicaGroup(
        group.name, group.role, nodes, group.machine_type, kind, count or group.accelerator_count,
        image or group.image,
    )  # fmt: skip


def _part(group: ManifestGroup, obj: Obj) -> GroupLayout:
    count = gpus(group) or tpus(group)
    # Accelerators have the same names as on Vertex AI.
    kind = accelerator(group).upper().replace("-", "_")
    per_job = 1
    if obj.get("kind") == "JobSet":
        per_job = whole(at(obj, *group.path, "template", "spec", "parallelism")) or 1
    bounds = worker_bounds(obj) if group.name == "worker" else None
    replica_group = ReplicaGroup(
        group.name,
        _ROLES.get(group.name, "worker" if group.name in {"node", "worker"} else group.name),
        group.replicas or 0,
        str(fields(group.pod, "nodeSelector").get(INSTANCE_TYPE) or ""),
        (kind or ("GPU" if gpus(group) else "TPU")) if count else "",
        count,
        str(group.container.get("image") or ""),
        bounds.least if bounds else None,
        bounds.most if bounds else None,
    )
    return GroupLayout(replica_group, per_job, is_spot(group))


def _gpus_of(resources: Mapping[str, Any]) -> int:
    return whole(fields(resources, "limits").get(GPU, fields(resources, "requests").get(GPU))) or 0


# Replicas


def replicas(
    parts: Sequence[GroupLayout],
    pods: Iterable[Pod],
    state: JobState,
    error: JobError | None,
    *,
    cleaned: bool = False,
) -> tuple[Replica, ...]:
    """Return the replicas of all groups, as their pods report them or as the job's state implies. `cleaned`
    is true if pods may have been removed when the job ended."""
    by_place = _places(parts, pods)
    inferred = infer_replicas(tuple(part.group for part in parts), state, error)
    if not by_place:
        return inferred
    shown = []
    for replica in inferred:
        tries = by_place.pop((replica.group, replica.index), None)
        shown.append(_with_pod(replica, tries) if tries else _without_pod(replica, state, cleaned))
    # An elastic job that was scaled down still has the pods to be removed.
    groups_by_name = {part.group.name: part.group for part in parts}
    for (name, index), tries in sorted(by_place.items()):
        group = groups_by_name.get(name)
        role = group.role if group else name
        shown.append(_with_pod(Replica(f"{name}-{index}", name, index, role), tries))
    return tuple(shown)


def _places(parts: Sequence[GroupLayout], pods: Iterable[Pod]) -> dict[tuple[str, int], list[Pod]]:
    """Group pods by group and index, the oldest pod of each replica first."""
    per_job = {part.group.name: part.per_job for part in parts}
    only = parts[0].group.name if parts else "worker"
    places: dict[tuple[str, int], list[Pod]] = {}
    unnumbered: dict[str, list[Pod]] = {}
    for pod in sorted(pods, key=_age):
        group = pod.group if pod.group in per_job or pod.group else only
        if pod.index is None:
            unnumbered.setdefault(group, []).append(pod)
            continue
        places.setdefault((group, pod.job_index * per_job.get(group, 1) + pod.index), []).append(pod)
    counts = {part.group.name: max(1, part.group.replicas) for part in parts}
    for group, several in unnumbered.items():
        # In a Job without indices the next pod replaces a failed one.
        for index, pod in _numbered(several, counts.get(group, 1)):
            places.setdefault((group, index), []).append(pod)
    return places


def _numbered(pods: Sequence[Pod], places: int) -> list[tuple[int, Pod]]:
    free = list(range(places))
    numbered = []
    for pod in pods:
        index = free.pop(0) if free else places - 1
        numbered.append((index, pod))
        if pod.state is JobState.FAILED:
            free.insert(0, index)
    return numbered


def _age(pod: Pod) -> tuple[float, str]:
    return (pod.created.timestamp() if pod.created else 0.0, pod.name)


def _with_pod(replica: Replica, tries: Sequence[Pod]) -> Replica:
    pod = tries[-1]
    return Replica(
        replica.id, replica.group, replica.index, replica.role, pod.state, pod.exit_code,
        node=pod.node, restarts=pod.restarts + len(tries) - 1,
        reason="" if restarted_in_place(pod) and pod.state is JobState.RUNNING else reason_words(pod),
        pod=pod.name,
    )  # fmt: skip


def _cleans_up(obj: Obj) -> bool:
    """Return whether the operator removes pods when the job ends."""
    policy = at(obj, "spec", "runPolicy", "cleanPodPolicy") or at(obj, "spec", "cleanPodPolicy")
    return policy in {"Running", "All"}


def _without_pod(replica: Replica, state: JobState, cleaned: bool) -> Replica:
    """Return a replica before the creation or after the deletion of its pod; its end is unknown."""
    if cleaned and state is JobState.SUCCEEDED:
        # An example is an MPIJob's worker, which waits for the launcher until it is stopped.
        return replace(replica, state=state, reason="ended with the job: removed by cleanPodPolicy")
    own = JobState.UNKNOWN if state.terminal or state is JobState.CANCELLING else state
    own = JobState.PENDING if own is JobState.RUNNING else own
    return Replica(replica.id, replica.group, replica.index, replica.role, own)


def _owner(obj: Obj, parts: Sequence[GroupLayout], related: RelatedObjects, restarts: int) -> OwningJob:
    """Return the owner of the pods, for the search for replaced pods."""
    metadata = fields(obj, "metadata")
    return OwningJob(
        str(metadata.get("namespace") or ""),
        str(obj.get("kind") or ""),
        str(metadata.get("name") or ""),
        str(metadata.get("uid") or ""),
        time_of(metadata.get("creationTimestamp")),
        {part.group.name: part.per_job for part in parts},
        {*(part.group.name for part in parts if part.spot), *(pod.group for pod in related.pods if pod.spot)},
        restarts,
    )


def _failures(
    parts: Sequence[GroupLayout], owner: OwningJob, related: RelatedObjects, replaced: Replaced
) -> list[ReplicaFailure]:
    """Return the failures of the replicas, from existing and from deleted pods."""
    present = [
        failure_of(pod, f"{group}-{index}")
        for (group, index), tries in _places(parts, related.pods).items()
        for pod in tries
        if failed_by_itself(pod) or restarted_in_place(pod)
    ]
    own = [failure for failure in present if not replaced.leaves(failure)]
    if owner.kind not in _SCALED_AWAY:
        return [*own, *replaced.failures]
    here = {f"{part.group.name}-{index}" for part in parts for index in part.group.shown}
    # A replica with an index above the job's present size will not run again.
    return [*own, *(failure for failure in replaced.failures if failure.replica in here)]


_SCALED_AWAY = frozenset({"PyTorchJob", "TFJob", "MPIJob"})
"""Kinds whose replicas are numbered from 0 up to the current size."""


_AFTER = timedelta(seconds=5)
"""Maximum delay between a replica's failure and the operator's report; other replicas may end within it."""


def _until(end: datetime | None, failures: Sequence[ReplicaFailure]) -> Sequence[ReplicaFailure]:
    """Drop failures after the job's end, when the remaining pods may fail repeatedly."""
    return [
        failure for failure in failures if end is None or failure.at is None or failure.at <= end + _AFTER
    ] or failures


def with_failures(
    shown: Sequence[Replica], failures: Iterable[ReplicaFailure], state: JobState
) -> tuple[Replica, ...]:
    """Return the replicas with their last failures."""
    last = newest_by_replica(failures)
    return tuple(_with_failure(replica, last.get(replica.id), state) for replica in shown)


def _with_failure(replica: Replica, failure: ReplicaFailure | None, state: JobState) -> Replica:
    if failure is None:
        return replica
    # The last failed pod of a replica without a pod has no replacement yet.
    more = failure.count if replica.pod else max(0, failure.count - 1)
    quiet = state.terminal or replica.state.terminal or replica.reason
    reason = replica.reason if quiet else failure.restarted if replica.pod else failure.cause
    return replace(replica, restarts=(replica.restarts or 0) + more, reason=mask_text(reason))


def _set_restarts(obj: Obj, related: RelatedObjects) -> int:
    """Return the number of times that a JobSet recreated all its Jobs."""
    job_set = related.job_set if obj.get("kind") == "TrainJob" else obj
    return whole(at(job_set, "status", "restarts")) or 0 if fields(job_set, "status") else 0


def _again(replica: Replica, restarts: int) -> Replica:
    """Return the replica with the restarts of the entire JobSet added."""
    return replace(replica, restarts=max(replica.restarts or 0, restarts)) if restarts else replica


def _restarts_note(obj: Obj, owner: OwningJob, related: RelatedObjects) -> str:
    """Return the restarts that the counts omit, because only a JobSet counts the pods that it replaces."""
    if not str(obj.get("apiVersion") or "").startswith("kubeflow.org/"):
        return ""
    if related.events is None:
        return (
            "Restarts count existing pods only: this login may not read Events, which record the "
            "replaced pods."
        )
    if counts_all(owner, related.pods, related.events):
        return ""
    return (
        "Restarts count existing pods, and replaced pods that Events still record: a "
        "cluster keeps Events for an hour."
    )


# Times and errors


def start_time(obj: Obj, status: Status, related: RelatedObjects) -> datetime | None:
    """Return the time at which the job's first pod started running, or `None`.

    A job whose first pods were replaced started about when its operator began to create pods.
    """
    pods = (*related.pods, *related.seen)
    starts = [time for time in (related.started, *(pod.first_started for pod in pods)) if time is not None]
    running, began = condition(obj, "Running"), _began(obj, related)
    again = _are_replaced(related, began) if starts else status.state is JobState.RESTARTING
    if again and began is not None:
        starts.append(began)
    if starts:
        return min(starts)
    if running is not None:
        return running.since
    if status.state is JobState.SUSPENDED and any(entry.type == "Running" for entry in conditions_of(obj)):
        # The job ran until its suspension; the time of its last start stays until it is resumed.
        return time_of(at(obj, "status", "startTime"))
    if status.state in {JobState.QUEUED, JobState.PENDING, JobState.SUSPENDED}:
        return None
    return time_of(at(obj, "status", "startTime"))


def attempt_time(obj: Obj, first: datetime | None, related: RelatedObjects) -> datetime | None:
    """Return the time at which the job's pods started after a restart of all; None if they only started
    `first`."""
    pods = [pod for pod in related.pods if not pod.state.terminal] or related.pods
    starts = [pod.started for pod in pods if pod.started is not None]
    again = any(pod.restarts for pod in pods) or _set_restarts(obj, related)
    if not starts or first is None or not (again or _are_replaced(related, _began(obj, related))):
        return None
    return min(starts) if min(starts) > first else None


def _began(obj: Obj, related: RelatedObjects) -> datetime | None:
    """Return the time at which the operator began to create pods, after the last suspension."""
    admitted = condition(related.workload or {}, "Admitted")
    lifted = [entry for entry in conditions_of(obj) if entry.type == "Suspended" and not entry.true]
    started = at(obj, "status", "startTime") or at(obj, "metadata", "creationTimestamp")
    times = [time_of(started), *(entry.since for entry in (admitted, *lifted) if entry is not None)]
    return max((time for time in times if time is not None), default=None)


def _are_replaced(related: RelatedObjects, began: datetime | None) -> bool:
    """Return whether all pods are newer than the first pods that the operator created, at `began`."""
    pods = (*related.pods, *related.seen)
    created = min((pod.created for pod in pods if pod.created is not None), default=None)
    return began is not None and created is not None and created - began > _CREATED_WITHIN


_CREATED_WITHIN = timedelta(minutes=1)
"""Time within which an operator creates a job's first pods, even in a busy cluster."""


def _end_time(obj: Obj, status: Status) -> datetime | None:
    if not status.state.terminal:
        return None
    return time_of(at(obj, "status", "completionTime")) or status.since


def _update_time(obj: Obj) -> datetime | None:
    times = [entry.since for entry in conditions_of(obj) if entry.since is not None]
    return max(times, default=time_of(at(obj, "metadata", "creationTimestamp")))


def _timeout(obj: Obj) -> timedelta | None:
    seconds = whole(at(obj, "spec", "runPolicy", "activeDeadlineSeconds"))
    seconds = seconds or whole(at(obj, "spec", "activeDeadlineSeconds"))
    return timedelta(seconds=seconds) if seconds else None


def _error(status: Status, failures: Sequence[ReplicaFailure]) -> JobError | None:
    """Return the error of a failed job: its condition, then the replicas that failed first."""
    if status.state is not JobState.FAILED:
        return None
    failed = sorted(
        newest_by_replica(failures).values(),
        key=lambda failure: (failure.at.timestamp() if failure.at else float("inf"), failure.replica),
    )
    sentences = [status.reason.rstrip(".") + "." if status.reason else ""]
    sentences += [_failure_sentence(failure) for failure in failed[:2]]
    words = " ".join(filter(None, sentences)) or "The job failed."
    return JobError(_UNKNOWN_CODE, mask_text(words)[:_LONGEST])


def _failure_sentence(failure: ReplicaFailure) -> str:
    """Return a replica's failure in Vertex AI's words, or "" for an unknown failure."""
    why, code = f" ({failure.words})" if failure.words else "", failure.exit_code
    replica = f"The replica {failure.replica}"
    if failure.reason == "OOMKilled" and code:
        return f"{replica} ran out of memory and exited with a non-zero status of {code}."
    if code:
        return f"{replica} exited with a non-zero status of {code}{why}."
    return f"{replica} failed{why}." if why else ""
