"""The MPI operator's validation of MPIJobs. The operator has no webhook and reports errors as Events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tui.emulator.kubernetes.operators.metadata import name_of
from tui.emulator.kubernetes.resources import Obj

TYPES = ("Launcher", "Worker")
_RESTARTS = ("Never", "OnFailure")


def _containers(replica: Any) -> list[Obj]:
    """Return the containers of a replica; the result is empty if an enclosing field is missing."""
    template = (replica or {}).get("template") or {}
    containers = (template.get("spec") or {}).get("containers") or []
    return containers if all(isinstance(container, Mapping) for container in containers) else []


def validation_errors(job: Obj) -> Iterator[str]:
    """Yield the validation errors of an MPIJob that has its defaults."""
    replicas = job["spec"].get("mpiReplicaSpecs") or {}
    workers = max(int((replicas.get("Worker") or {}).get("replicas") or 1), 1)
    host = f"{name_of(job)}-worker-{workers - 1}"
    if len(host) > 63 or not host[0].isalpha() or "." in host:
        yield (
            f'metadata.name: Invalid value: "{name_of(job)}": will not able to create pod and service with '
            f'invalid DNS label "{host}"'
        )
    launcher = replicas.get("Launcher")
    if launcher is None:
        yield "spec.mpiReplicaSpecs[Launcher]: Required value: must have Launcher replica spec"
    for name in TYPES:
        if replicas.get(name) is not None:
            yield from _replica(name, replicas[name])


def _replica(name: str, replica: Obj) -> Iterator[str]:
    at = f"spec.mpiReplicaSpecs[{name}]"
    policy = replica.get("restartPolicy")
    if policy not in _RESTARTS:
        supported = ", ".join(f'"{known}"' for known in _RESTARTS)
        yield f'{at}.restartPolicy: Unsupported value: "{policy}": supported values: {supported}'
    if not _containers(replica):
        yield f"{at}.template.spec.containers: Required value: must define at least one container"
    count = int(replica.get("replicas") or 0)
    if name == "Launcher" and count != 1:
        yield f"{at}.replicas: Invalid value: {count}: must be 1"
    if name == "Worker" and count <= 0:
        yield f"{at}.replicas: Invalid value: {count}: must be greater than or equal to 1"
