"""Workloads of jobs and their conditions."""

from __future__ import annotations

import copy
import hashlib
from datetime import datetime

from tui.emulator.kubernetes.operators import conditions
from tui.emulator.kubernetes.operators.kueue.job_kinds import PodSet
from tui.emulator.kubernetes.operators.metadata import name_of, owned, uid_of
from tui.emulator.kubernetes.resources import Obj
from tui.emulator.kubernetes.times import rfc3339

API_VERSION = "kueue.x-k8s.io/v1beta2"
LONGEST_PREFIX = 57


def workload_name(job: Obj) -> str:
    """Return the name of a job's workload: kind, name and a hash of the uid."""
    group = job["apiVersion"].rpartition("/")[0]
    text = "\n".join((job["kind"], group, name_of(job), uid_of(job)))
    digest = hashlib.sha1(text.encode()).hexdigest()[:5]
    return f"{job['kind'].lower()}-{name_of(job)}"[:LONGEST_PREFIX] + f"-{digest}"


def new_workload(job: Obj, queue: str, pod_sets: list[PodSet], priority: Obj) -> Obj:
    """Return the workload of a job. `priority` contains the value and class."""
    metadata = {
        "labels": {"kueue.x-k8s.io/job-uid": uid_of(job)},
        "finalizers": ["kueue.x-k8s.io/resource-in-use"],
    }
    spec = {"podSets": spec_of(pod_sets), "queueName": queue, "active": True, **priority}
    return owned(job, API_VERSION, "Workload", workload_name(job), metadata=metadata, spec=spec)


def spec_of(pod_sets: list[PodSet]) -> list[Obj]:
    """Return the pod sets in a workload's format."""
    return [
        {"name": pods.name, "count": pods.count, "template": copy.deepcopy(pods.template)}
        for pods in pod_sets
    ]


def status_of(workload: Obj) -> Obj:
    """Return the status of a workload."""
    return workload.get("status") or {}


def holds(workload: Obj, condition: str) -> bool:
    """Return whether a condition of the workload is True."""
    return conditions.is_true(status_of(workload), condition)


def has_quota(workload: Obj) -> bool:
    """Return whether the workload holds quota."""
    return holds(workload, "QuotaReserved") and not holds(workload, "Finished")


def is_admitted(workload: Obj) -> bool:
    """Return whether the job may run."""
    return holds(workload, "Admitted")


def turn(workload: Obj) -> tuple[int, str, str]:
    """Return the sort key in a queue: priority, then age; a PodsReady timeout restarts the age."""
    evicted = conditions.find(status_of(workload), "Evicted")
    since = workload["metadata"]["creationTimestamp"]
    if evicted and evicted["status"] == "True" and evicted["reason"] == "PodsReadyTimeout":
        since = evicted["lastTransitionTime"]
    return -priority_of(workload), since, uid_of(workload)


def priority_of(workload: Obj) -> int:
    """Return the priority of a workload."""
    return int(workload["spec"].get("priority") or 0)


class Conditions:
    """Edits the conditions of one workload. `status` is stored."""

    def __init__(self, workload: Obj, now: datetime) -> None:
        self.status: Obj = copy.deepcopy(status_of(workload))
        self.generation = int(workload["metadata"].get("generation") or 1)
        self.now = rfc3339(now)

    def put(self, condition: str, reason: str, message: str, value: str = "True") -> bool:
        """Set a condition and return whether it changed."""
        return conditions.put(
            self.status, condition, reason, message, self.now, value=value, generation=self.generation
        )

    def reserve(self, admission: Obj) -> None:
        """Reserve quota and admit the workload."""
        self.status["admission"] = admission
        queue = admission["clusterQueue"]
        self.put("QuotaReserved", "QuotaReserved", f"Quota reserved in ClusterQueue {queue}")
        for condition in ("Evicted", "Preempted"):
            before = conditions.find(self.status, condition)
            if before is not None and before["status"] == "True":
                self.put(condition, "QuotaReserved", f"Previously: {before['message']}", "False")
        self.put("Admitted", "Admitted", "The workload is admitted")

    def wait(self, reason: str, message: str) -> bool:
        """Record why the workload waits for quota; return whether anything changed."""
        changed = self.put("QuotaReserved", reason, message, "False")
        if self.status.pop("admission", None) is not None:
            changed = True
        if conditions.is_true(self.status, "Admitted"):
            self.put("Admitted", "NoReservation", "The workload has no reservation", "False")
            changed = True
        return changed

    def evict(self, reason: str, message: str) -> None:
        """Request that the job stops; its quota is released afterwards."""
        self.put("Evicted", reason, message)
