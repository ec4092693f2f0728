"""Creation and classification of a Job's pods."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from datetime import datetime

from tui.emulator.kubernetes.operators import conditions
from tui.emulator.kubernetes.operators.metadata import (
    annotations_of,
    is_terminating,
    name_of,
    namespace_of,
    owner_reference,
    phase_of,
    uid_of,
)
from tui.emulator.kubernetes.resources import Obj

FINALIZER = "batch.kubernetes.io/job-tracking"
"""Finalizer of a pod that its Job has not counted yet."""
INDEX = "batch.kubernetes.io/job-completion-index"
LONGEST_NAME = 63


def is_indexed(job: Obj) -> bool:
    """Return whether the pods have completion indexes."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def is_tracked(pod: Obj) -> bool:
    """Return whether the Job has not counted the pod yet."""
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


def is_active(pod: Obj) -> bool:
    """Return whether a pod waits or runs and is not being deleted."""
    return phase_of(pod) not in ("Succeeded", "Failed") and not is_terminating(pod)


def is_stopping(pod: Obj) -> bool:
    """Return whether a pod is being deleted and has not ended yet."""
    return phase_of(pod) not in ("Succeeded", "Failed") and is_terminating(pod)


def is_ready(pod: Obj) -> bool:
    """Return whether the pod's condition Ready is True."""
    return conditions.is_true(pod.get("status") or {}, "Ready")


def replaces_only_failed(job: Obj) -> bool:
    """Return whether a pod is replaced only after it failed, not while it is being deleted."""
    policy = job["spec"].get("podReplacementPolicy")
    return policy == "Failed" or job["spec"].get("podFailurePolicy") is not None


def is_failed(job: Obj, pod: Obj) -> bool:
    """Return whether the pod counts as failed. A terminating pod counts too, unless the Job replaces only
    failed pods, because it may never report its end."""
    if phase_of(pod) == "Failed":
        return True
    return not replaces_only_failed(job) and is_terminating(pod) and phase_of(pod) != "Succeeded"


def index_of(pod: Obj) -> int:
    """Return the completion index of a pod, or -1."""
    text = annotations_of(pod).get(INDEX, "")
    return int(text) if text.isdigit() else -1


def restarts_of(pods: Iterable[Obj]) -> int:
    """Return the container restarts of all active pods."""
    total = 0
    for pod in pods:
        if phase_of(pod) in ("Running", "Pending"):
            for field in ("initContainerStatuses", "containerStatuses"):
                statuses = (pod.get("status") or {}).get(field) or ()
                total += sum(int(status.get("restartCount", 0)) for status in statuses)
    return total


def ended_at(pod: Obj) -> datetime | None:
    """Return when the last container of a pod ended, or None if the result is unknown."""
    status = pod.get("status") or {}
    times = []
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(field) or ():
            ended = ((container.get("state") or {}).get("terminated") or {}).get("finishedAt")
            times += [datetime.fromisoformat(ended)] if ended else []
    if not times and is_terminating(pod):
        return datetime.fromisoformat(pod["metadata"]["deletionTimestamp"])
    return max(times, default=None)


def job_labels(job: Obj) -> dict[str, str]:
    """Return the labels of all pods of a Job."""
    uid, name = uid_of(job), name_of(job)
    return {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }


def new_pod(job: Obj, index: int | None) -> Obj:
    """Return the next pod of a Job, for a completion index if it is indexed."""
    template = copy.deepcopy(job["spec"]["template"])
    metadata = template.get("metadata") or {}
    annotations = dict(metadata.get("annotations") or {})
    labels = {**(metadata.get("labels") or {}), **job_labels(job)}
    prefix = name_of(job)
    if index is not None:
        annotations[INDEX] = labels[INDEX] = str(index)
        template["spec"]["hostname"] = f"{name_of(job)}-{index}"
        prefix = _shortened(name_of(job), f"-{index}")
        _add_index_variable(template["spec"])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{prefix}-",
            "namespace": namespace_of(job),
            "labels": labels,
            "annotations": annotations,
            "finalizers": [*(metadata.get("finalizers") or ()), FINALIZER],
            "ownerReferences": [owner_reference(job)],
        },
        "spec": template["spec"],
    }


def _shortened(name: str, suffix: str) -> str:
    """Shorten the name so that index and random suffix fit."""
    return name[: LONGEST_NAME - len(suffix) - len("-xxxxx")] + suffix


def _add_index_variable(spec: Obj) -> None:
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
    for field in ("initContainers", "containers"):
        for container in spec.get(field) or ():
            variables = container.setdefault("env", [])
            if all(variable.get("name") != "JOB_COMPLETION_INDEX" for variable in variables):
                variables.append({"name": "JOB_COMPLETION_INDEX", "valueFrom": source})
