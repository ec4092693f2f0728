"""The pods of a job's log: their replicas, containers and runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tui.backends.kubernetes.fields import items, mapping
from tui.backends.kubernetes.logs.lines.entries import ContainerName
from tui.backends.kubernetes.logs.lines.stamped import stamp_of
from tui.backends.kubernetes.logs.runs import ContainerState, container_state

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
MAIN = ("pytorch", "tensorflow", "mpi", "node", "launcher", "trainer")
"""Names of the operators' main containers."""
_BETWEEN = frozenset({"JobSet", "Job"})
Obj = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JobIdentity:
    """The identity of a job's own object."""

    name: str
    """Full resource name of the job."""
    namespace: str
    object_name: str
    uid: str
    created: int | None
    """Creation time in ns since the epoch, to the second."""
    selector: str
    """Label selector of the job's pods."""


ReplicaOf = Callable[[Obj], str]
"""A function that returns the id of the replica that a pod (in REST format) belongs to."""


@dataclass(frozen=True, slots=True)
class LoggedPod:
    """One pod of a job."""

    uid: str
    name: str
    namespace: str
    replica: str
    node: str
    created: int | None
    """Creation time in ns since the epoch."""
    deleting: bool
    containers: Mapping[str, ContainerState]
    main: str
    """Name of the main container."""
    over: bool
    """Whether no container of the pod will run again."""

    def container(self, name: str) -> ContainerName:
        """Return the identity of one of the pod's containers."""
        return ContainerName(self.namespace, self.name, self.uid, name, self.replica, name == self.main)


def identity(name: str, obj: Obj, selector: str) -> JobIdentity:
    """Return the identity of a job's object."""
    meta = mapping(obj.get("metadata"))
    created = stamp_of(str(meta.get("creationTimestamp") or ""))
    namespace, own = str(meta.get("namespace") or ""), str(meta.get("name") or "")
    return JobIdentity(name, namespace, own, str(meta.get("uid") or ""), created, selector)


def belongs(pod: Obj, job: JobIdentity) -> bool:
    """Return whether a pod with the job's labels belongs to this job, not to an earlier job of the same
    name."""
    meta = mapping(pod.get("metadata"))
    owners = items(meta.get("ownerReferences"))
    if any(owner.get("uid") == job.uid for owner in owners):
        return True
    if any(owner.get("name") == job.object_name and owner.get("kind") not in _BETWEEN for owner in owners):
        return False
    # The pods of a TrainJob belong to a Job of a JobSet: compare their age.
    created = stamp_of(str(meta.get("creationTimestamp") or ""))
    return created is None or job.created is None or created >= job.created


def read_pod(pod: Mapping[str, Any], replica_of: Callable[[Mapping[str, Any]], str]) -> LoggedPod:
    """Convert a pod in REST format. `replica_of` returns its replica."""
    meta, spec, status = (mapping(pod.get(part)) for part in ("metadata", "spec", "status"))
    names = [
        str(item.get("name"))
        for field in ("initContainers", "containers")
        for item in items(spec.get(field))
        if item.get("name")
    ]
    known = {
        str(status_.get("name")): status_
        for field in ("initContainerStatuses", "containerStatuses")
        for status_ in items(status.get(field))
    }
    own = [str(container.get("name")) for container in items(spec.get("containers"))]
    return LoggedPod(
        uid=str(meta.get("uid") or ""),
        name=str(meta.get("name") or ""),
        namespace=str(meta.get("namespace") or ""),
        replica=replica_of(pod),
        node=str(spec.get("nodeName") or ""),
        created=stamp_of(str(meta.get("creationTimestamp") or "")),
        deleting=bool(meta.get("deletionTimestamp")),
        containers={name: container_state(known.get(name)) for name in names},
        main=_main(own, str(mapping(meta.get("annotations")).get(DEFAULT_CONTAINER) or "")),
        over=status.get("phase") in {"Succeeded", "Failed"},
    )


def replica_in(pod: str, job: str, groups: Iterable[str]) -> str:
    """Return the id of a replica from the name of its pod, or "" if the name contains none.

    Examples: `JOB-worker-3` of the v1 operator, `JOB-launcher-x7k2p` of an MPIJob's batch Job,
    `JOB-node-0-3-x7k2p` of a TrainJob's JobSet, whose last number is the pod's.
    """
    for group in groups:
        match = re.fullmatch(
            rf"{re.escape(job)}-{re.escape(group)}(?:-(\d+))?(?:-(\d+))?(?:-[a-z0-9]{{5}})?", pod
        )
        if match is not None:
            return f"{group}-{match[2] or match[1] or 0}"
    return ""


def _main(names: list[str], annotated: str) -> str:
    if annotated in names:
        return annotated
    return next((name for name in MAIN if name in names), names[0] if names else "")
