"""A pod, reduced to the used fields, and its index as a replica of its job."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tui.domain.core.states import JobState
from tui.domain.kubernetes import quantity
from tui.domain.kubernetes.conditions import conditions_of, time_of
from tui.domain.kubernetes.workloads import GPU, SPOT, WORKLOADS, elements, fields, tolerates, whole

Obj = Mapping[str, Any]
OPERATOR = "training.kubeflow.org/"
JOBSET = "jobset.sigs.k8s.io/"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
_JOBS = frozenset(workload.kind for workload in WORKLOADS)
_GONE_NODE = frozenset({"Terminated", "NodeShutdown", "Shutdown", "NodeLost"})
"""`status.reason` of pods whose node was shut down, for example because GKE preempted a Spot node."""
_NODE_DISRUPTIONS = frozenset({"TerminationByKubelet", "DeletionByPodGC", "DeletionByTaintManager"})
_LOW = "low on resource"
"""Text in the kubelet's eviction message that precedes the name of the exhausted resource."""
_WAITS = frozenset({"ContainerCreating", "PodInitializing", ""})
"""Waiting reasons of a container that is starting; other reasons name a problem."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller of an object."""

    kind: str
    name: str
    uid: str = ""

    def is_other_than(self, kind: str, uid: str) -> bool:
        """Return whether the controller is an earlier object of this kind with another uid."""
        return self.kind == kind and bool(self.uid and uid) and self.uid != uid


@dataclass(frozen=True, slots=True)
class Pod:
    """The used fields of a pod; `group` and `index` of its replica come from its labels."""

    name: str
    namespace: str
    uid: str
    owner: Owner | None
    group: str
    index: int | None
    job_index: int
    """Index of the pod's Job within the replicated job of a JobSet."""
    state: JobState
    phase: str
    created: datetime | None = None
    node: str = ""
    started: datetime | None = None
    """Time at which the newest run of the pod's container started."""
    first_started: datetime | None = None
    """Time of the first run's start, or shortly before. A pod has the times of its last two runs only."""
    ended: datetime | None = None
    exit_code: int | None = None
    restarts: int = 0
    reason: str = ""
    """Reason for the pod's state, e.g. `OOMKilled`, `Evicted`, `ImagePullBackOff`, `Unschedulable`."""
    message: str = ""
    spot: bool = False
    gpus: int = 0
    cpus: float = 0.0
    """CPUs that the pod's containers request; 0 if unset."""
    stopped: bool = False
    """Whether the pod was deleted before its end, and ended only because of the deletion."""
    failed_at: datetime | None = None
    """Time at which the previous run of the pod's container ended."""
    container: str = ""
    """The container with the reason and the exit code."""


def owner_of(obj: Obj) -> Owner | None:
    """Return the controller of an object."""
    for reference in elements(obj, "metadata", "ownerReferences"):
        if fields(reference).get("controller"):
            kind, uid = sys.intern(str(reference.get("kind") or "")), str(reference.get("uid") or "")
            return Owner(kind, str(reference.get("name") or ""), uid)
    return None


def reduced(obj: Obj) -> Pod | None:
    """Reduce a pod to the used fields; None if it does not belong to a job."""
    owner = owner_of(obj)
    if owner is None or owner.kind not in _JOBS:
        return None
    metadata, spec, status = fields(obj, "metadata"), fields(obj, "spec"), fields(obj, "status")
    labels = {**fields(metadata, "annotations"), **fields(metadata, "labels")}
    container = _container(obj)
    reason, message = _reason(obj, container)
    finished = fields(container, "state", "terminated") or fields(container, "lastState", "terminated")
    state = _state(obj, container)
    started = time_of(fields(container, "state", "running").get("startedAt") or finished.get("startedAt"))
    restarts = sum(whole(fields(item).get("restartCount")) or 0 for item in _containers(obj))
    return Pod(
        name=str(metadata.get("name") or ""),
        namespace=sys.intern(str(metadata.get("namespace") or "")),
        uid=str(metadata.get("uid") or ""),
        owner=owner,
        group=sys.intern(_group(labels)),
        index=_index(labels),
        job_index=whole(labels.get(f"{JOBSET}job-index")) or 0,
        state=state,
        phase=sys.intern(str(status.get("phase") or "")),
        created=time_of(metadata.get("creationTimestamp")),
        node=sys.intern(str(spec.get("nodeName") or "")),
        started=started,
        first_started=(time_of(status.get("startTime")) or started) if restarts and started else started,
        ended=time_of(finished.get("finishedAt")) if state.terminal else None,
        exit_code=_code(finished.get("exitCode")) if state.terminal or finished else None,
        restarts=restarts,
        reason=sys.intern(reason),
        message=message,
        spot=str(fields(spec, "nodeSelector").get(SPOT, "")).lower() == "true" or tolerates(spec, SPOT),
        gpus=sum(
            whole(fields(item, "resources", "limits").get(GPU)) or 0 for item in elements(spec, "containers")
        ),
        cpus=sum(_cpus(fields(item, "resources")) for item in elements(spec, "containers")),
        stopped=_stopped(obj, finished),
        failed_at=None if state.terminal else time_of(finished.get("finishedAt")),
        container=sys.intern(str(container.get("name") or "")),
    )


def _cpus(resources: Obj) -> float:
    """Return a container's CPU request; without a request Kubernetes uses the limit."""
    amount = fields(resources, "requests").get("cpu", fields(resources, "limits").get("cpu", 0))
    try:
        return float(quantity.parse(amount))
    except quantity.NotAQuantity:
        return 0.0


def _stopped(obj: Obj, finished: Obj) -> bool:
    metadata = fields(obj, "metadata")
    due = time_of(metadata.get("deletionTimestamp"))
    if due is None or fields(obj, "status").get("reason") or finished.get("reason") == "OOMKilled":
        return False
    if any(entry.type == "DisruptionTarget" and entry.true for entry in conditions_of(obj)):
        return False
    # deletionTimestamp is the end of the grace period.
    deleted_at = due - timedelta(seconds=whole(metadata.get("deletionGracePeriodSeconds")) or 0)
    ended = time_of(finished.get("finishedAt"))
    return ended is None or ended >= deleted_at


def _group(labels: Mapping[str, Any]) -> str:
    named = (
        labels.get(f"{OPERATOR}replica-type")
        or labels.get(f"{OPERATOR}job-role")
        or labels.get(f"{JOBSET}replicatedjob-name")
    )
    return str(named or "").lower()


def _index(labels: Mapping[str, Any]) -> int | None:
    index = labels.get(f"{OPERATOR}replica-index")
    return whole(index if index is not None else labels.get(COMPLETION_INDEX))


def _code(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _containers(obj: Obj) -> list[Any]:
    return [*elements(obj, "status", "initContainerStatuses"), *elements(obj, "status", "containerStatuses")]


def _container(obj: Obj) -> Obj:
    """Return the status of the container that decides: a failed container, or otherwise the first
    container."""
    statuses = [item for item in _containers(obj) if isinstance(item, Mapping)]
    for container_status in statuses:
        if fields(container_status, "state", "terminated").get("exitCode"):
            return container_status
    main = [item for item in elements(obj, "status", "containerStatuses") if isinstance(item, Mapping)]
    waiting = [item for item in statuses if fields(item, "state", "waiting").get("reason", "") not in _WAITS]
    return (waiting or main or [{}])[0]


def _state(obj: Obj, container: Obj) -> JobState:
    phase = fields(obj, "status").get("phase")
    if phase == "Succeeded":
        return JobState.SUCCEEDED
    if phase == "Failed":
        return JobState.FAILED
    if fields(obj, "metadata").get("deletionTimestamp"):
        return JobState.CANCELLING
    if phase == "Running":
        if fields(container, "state", "running"):
            return JobState.RUNNING
        waits = fields(container, "state", "waiting").get("reason")
        return (
            JobState.RESTARTING
            if waits == "CrashLoopBackOff" or container.get("restartCount")
            else (JobState.PENDING)
        )
    if phase == "Pending":
        return JobState.QUEUED if elements(obj, "spec", "schedulingGates") else JobState.PENDING
    return JobState.UNKNOWN


def _reason(obj: Obj, container: Obj) -> tuple[str, str]:
    """Return reason and message of a pod in an abnormal state."""
    status = fields(obj, "status")
    own_reason, words = str(status.get("reason") or ""), _line(status.get("message"))
    conditions = {entry.type: entry for entry in conditions_of(obj)}
    disrupted = conditions.get("DisruptionTarget")
    gone = disrupted is not None and disrupted.true and disrupted.reason in _NODE_DISRUPTIONS
    pressed = disrupted is not None and disrupted.true and _LOW in disrupted.message
    if pressed and not own_reason:
        # The condition of an eviction precedes the pod's own reason; a shutdown's condition has only its
        # reason.
        return "Evicted", disrupted.message if disrupted else ""
    if own_reason in _GONE_NODE or (gone and own_reason != "Evicted"):
        return "NodeLost", words or (disrupted.message if disrupted else "")
    if own_reason:
        return own_reason, words
    ended = fields(container, "state", "terminated") or fields(container, "lastState", "terminated")
    waiting = fields(container, "state", "waiting")
    if waiting.get("reason", "") not in _WAITS:
        return str(waiting["reason"]), _line(waiting.get("message"))
    is_disrupted = disrupted is not None and disrupted.true
    # The disruption caused the container's signal, and explains more than `Error`.
    if ended and ended.get("reason") not in {None, "Completed", *(("Error",) if is_disrupted else ())}:
        return str(ended["reason"]), _line(ended.get("message"))
    if disrupted is not None and is_disrupted:
        return disrupted.reason, disrupted.message
    scheduled = conditions.get("PodScheduled")
    if scheduled is not None and not scheduled.true and status.get("phase") == "Pending":
        return scheduled.reason, scheduled.message
    return "", ""


def _line(text: Any) -> str:
    return " ".join(str(text or "").split())[:400]


_WORDS = {
    "OOMKilled": "out of memory (OOMKilled)",
    "Evicted": "evicted",
    "Preempted": "preempted by a pod of higher priority",
    "TaintManagerEviction": "evicted for a taint of its node (TaintManagerEviction)",
    "PreemptionByScheduler": "preempted by a pod of higher priority",
    "EvictionByEvictionAPI": "evicted on request",
    "CrashLoopBackOff": "waits before its restart (CrashLoopBackOff)",
    "SchedulingGated": "held until admitted (SchedulingGated)",
    "DeadlineExceeded": "ran longer than its deadline (DeadlineExceeded)",
    "ContainerStatusUnknown": "lost with its node (ContainerStatusUnknown)",
}


def words_of(reason: str, message: str = "", *, spot: bool = False) -> str:
    """Return a pod's reason as text; `spot` is true for a Spot node."""
    if reason == "NodeLost":
        return "node preempted (GKE Spot)" if spot else "node lost or shut down"
    if reason == "Evicted" and message:
        return f"evicted: {message}"
    return _WORDS.get(reason, "") or reason


def reason_words(pod: Pod) -> str:
    """Return the pod's reason as text, or "" if it runs or succeeded."""
    if not pod.reason or pod.state is JobState.SUCCEEDED:
        return ""
    if pod.reason == "Error" and pod.exit_code is not None:
        return ""
    return words_of(pod.reason, pod.message, spot=pod.spot)
