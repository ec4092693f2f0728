"""What suspend, resume and scale change in a job's object, as JSON merge patches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tui.domain.kubernetes.conditions import suspend_path
from tui.domain.kubernetes.workloads import at, fields, whole

Obj = Mapping[str, Any]
_SCALED = {
    "pytorch_job": ("spec", "pytorchReplicaSpecs", "Worker", "replicas"),
    "tf_job": ("spec", "tfReplicaSpecs", "Worker", "replicas"),
    "mpi_job": ("spec", "mpiReplicaSpecs", "Worker", "replicas"),
    "batch_job": ("spec", "parallelism"),
}
"""The number of workers. Those of a TrainJob and of a JobSet can't be changed once they are created."""


def suspend_patch(obj: Obj, suspend: bool) -> dict[str, Any]:
    """The patch that suspends or resumes a job."""
    return _nested(suspend_path(obj), suspend)


def scale_patch(kind: str, replicas: int, obj: Obj | None = None) -> dict[str, Any] | None:
    """The patch for so many workers; None for a kind, or a job, whose workers can't be scaled."""
    path = _SCALED.get(kind)
    if path is None or (obj is not None and at(obj, *path[:-1]) is None):
        return None
    return _nested(path, replicas)


def scale_problem(obj: Obj, replicas: int) -> str:
    """Why a job can't have so many workers, as a sentence; "" where it can."""
    if replicas < 0:
        return "The number of workers is 0 or more."
    elastic = fields(obj, "spec", "elasticPolicy")
    least, most = whole(elastic.get("minReplicas")), whole(elastic.get("maxReplicas"))
    if obj.get("kind") == "PyTorchJob" and not elastic:
        return "It has no elasticPolicy: its world size is fixed, and torch would wait for the others."
    if least is not None and replicas < least:
        return f"Its elasticPolicy has at least {least} workers (minReplicas)."
    if most is not None and replicas > most:
        return f"Its elasticPolicy has at most {most} workers (maxReplicas)."
    return ""


def workers_of(obj: Obj, kind: str) -> int | None:
    """How many workers it is asked to have; None where they can't be scaled."""
    path = _SCALED.get(kind)
    return whole(at(obj, *path)) if path else None


def _nested(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    found: Any = value
    for name in reversed(path):
        found = {name: found}
    made: dict[str, Any] = found
    return made
