"""The JSON merge patches that suspend, resume or scale a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tui.domain.core.formatting import pieces
from tui.domain.core.job import Job
from tui.domain.core.replica import ReplicaGroup
from tui.domain.kubernetes.conditions import suspend_path
from tui.domain.kubernetes.workloads import at, whole

Obj = Mapping[str, Any]
_SCALED = {
    "pytorch_job": ("spec", "pytorchReplicaSpecs", "Worker", "replicas"),
    "tf_job": ("spec", "tfReplicaSpecs", "Worker", "replicas"),
    "mpi_job": ("spec", "mpiReplicaSpecs", "Worker", "replicas"),
    "batch_job": ("spec", "parallelism"),
}
"""Path of the number of workers by kind. A TrainJob or JobSet can't change it after creation."""


def suspend_patch(obj: Obj, suspend: bool) -> dict[str, Any]:
    """Return the patch that suspends or resumes a job."""
    return _nested(suspend_path(obj), suspend)


def scale_patch(kind: str, replicas: int, obj: Obj | None = None) -> dict[str, Any] | None:
    """Return the patch that sets the number of workers, or None if the kind or the job can't be scaled."""
    path = _SCALED.get(kind)
    if path is None or (obj is not None and at(obj, *path[:-1]) is None):
        return None
    return _nested(path, replicas)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The smallest and largest number of workers that an elasticPolicy allows."""

    least: int
    most: int

    @property
    def words(self) -> str:
        """The bounds as text, e.g. `1–3 workers`."""
        if self.least == self.most:
            return pieces(self.least, "worker")
        return f"{self.least}–{pieces(self.most, 'worker')}"


def worker_bounds(obj: Obj) -> Bounds | None:
    """Return the bounds in a PyTorchJob's elasticPolicy, or None for a job without one. For a missing bound
    Training Operator uses the other bound, or the current number of workers."""
    elastic = at(obj, "spec", "elasticPolicy")
    if obj.get("kind") != "PyTorchJob" or not isinstance(elastic, Mapping):
        return None
    least, most = whole(elastic.get("minReplicas")), whole(elastic.get("maxReplicas"))
    default = next(
        (number for number in (least, most, workers_of(obj, "pytorch_job")) if number is not None), 1
    )
    return Bounds(default if least is None else least, default if most is None else most)


def scale_problem(obj: Obj, replicas: int) -> str:
    """Return why the job can't have this number of workers, as a sentence, or ""."""
    return _scale_problem(obj.get("kind") == "PyTorchJob", worker_bounds(obj), replicas)


def job_scale_problem(job: Job, replicas: int | None = None) -> str:
    """Return why the job can't be scaled to `replicas`; for None, why it can't be scaled at all."""
    if worker_group(job) is None:
        return "The job has no workers that can be scaled."
    return _scale_problem(job.kind == "pytorch_job", job_bounds(job), replicas)


def _scale_problem(needs_policy: bool, bounds: Bounds | None, replicas: int | None) -> str:
    if bounds is None and needs_policy:
        return (
            "The job has no elasticPolicy: its world size is fixed, and torch would wait for the "
            "missing workers."
        )
    if replicas is None:
        return ""
    if replicas < 0:
        return "The number of workers must be at least 0."
    if bounds is not None and not bounds.least <= replicas <= bounds.most:
        names = "minReplicas and maxReplicas"
        return f"The job's elasticPolicy allows {bounds.words}, not {replicas} ({names})."
    return ""


def job_bounds(job: Job) -> Bounds | None:
    """Return the bounds of a job's workers, or None without bounds."""
    group = worker_group(job)
    if group is None or group.min_replicas is None or group.max_replicas is None:
        return None
    return Bounds(group.min_replicas, group.max_replicas)


def bounds_words(job: Job) -> str:
    """Return the bounds for a question, e.g. `1–3 workers by its elasticPolicy`."""
    bounds = job_bounds(job)
    if bounds is None:
        return "no elasticPolicy and therefore no bounds"
    return f"{bounds.words} by its elasticPolicy"


def worker_group(job: Job) -> ReplicaGroup | None:
    """Return the replica group that can be scaled."""
    return next((group for group in job.groups if group.name == "worker"), None)


def workers_of(obj: Obj, kind: str) -> int | None:
    """Return the number of workers in the job's spec, or None if they can't be scaled."""
    path = _SCALED.get(kind)
    return whole(at(obj, *path)) if path else None


def _nested(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    *above, last = path
    nested: dict[str, Any] = {last: value}
    for name in reversed(above):
        nested = {name: nested}
    return nested
