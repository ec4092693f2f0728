"""Objects and pods of a cluster's jobs, for the services of logs, shells, metrics and progress."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from time import monotonic
from typing import Any, cast

from tui.backends.errors import BackendError, InvalidRequest
from tui.backends.interface import JobService
from tui.backends.kubernetes.connection import ClusterConnection
from tui.backends.kubernetes.discovery import PODS, Served, pod_label
from tui.backends.kubernetes.fields import mapping
from tui.backends.kubernetes.logs.pods import LoggedPod, ReplicaOf, belongs, identity, read_pod
from tui.domain.core.job import Job
from tui.domain.kubernetes.names import JobName, parse_name
from tui.domain.kubernetes.pods import reduced
from tui.domain.kubernetes.workloads import elements, whole

Obj = Mapping[str, Any]
RECENT = 8.0
"""Seconds for which the pods of a job are cached."""


class JobPods:
    """Reads the pods of jobs that the given job services list."""

    def __init__(self, connection: ClusterConnection, served: Served, jobs: Mapping[str, JobService]) -> None:
        self._connection = connection
        self._served = served
        self._jobs = jobs
        self._recent: dict[str, tuple[float, datetime | None, list[tuple[LoggedPod, Obj]]]] = {}

    async def job(self, name: str) -> Job:
        """Return the job. Raises NotFound."""
        return await self._service(name).get(name)

    async def objects(self, name: str) -> tuple[Obj, ...]:
        """Return the job's object, then its Workload if Kueue manages the job. Raises NotFound."""
        obj = await self._service(name).spec(name)
        queued = self._served.part("Workload")
        if queued is None:
            return (obj,)
        uid = mapping(obj.get("metadata")).get("uid")
        place = self.place(name)
        params = {"labelSelector": f"kueue.x-k8s.io/job-uid={uid}"}
        try:
            workloads = await self._connection.items(
                queued.path(place.namespace), action=f"list the {queued.resource}", params=params
            )
        except BackendError:
            # Some users may not read the Workload. The job's own object has most of the information.
            return (obj,)
        head = {"apiVersion": queued.api_version, "kind": queued.kind}
        return (obj, *({**head, **item} for item in workloads))

    def selector(self, name: str) -> str:
        """Return the label selector of a job's pods."""
        place = self.place(name)
        kind = next((key for key, service in self._jobs.items() if service.owns(name)), "")
        return f"{pod_label(kind)}={place.name}"

    def naming(self, job: Job, obj: Obj) -> ReplicaOf:
        """Return a function that maps a pod to the job's replica."""
        return ReplicaNames(job, obj)

    async def pods(self, name: str, job: Job | None = None) -> list[LoggedPod]:
        """Return the current pods of a job, oldest first. Raises BackendError."""
        return [pod for pod, _ in await self.pod_objects(name, job)]

    async def pod_objects(self, name: str, job: Job | None = None) -> list[tuple[LoggedPod, Obj]]:
        """Return the pods of a job with their objects, oldest first. Raises BackendError."""
        obj = await self._service(name).spec(name)
        replica_of = self.naming(job or await self.job(name), obj)
        place, own_identity = self.place(name), identity(name, obj, self.selector(name))
        pods = await self._connection.items(
            PODS.path(place.namespace),
            action=f"list the pods of {place.name}",
            params={"labelSelector": own_identity.selector},
        )
        own = [pod for pod in pods if belongs(pod, own_identity)]
        own.sort(key=lambda pod: str(mapping(pod.get("metadata")).get("creationTimestamp") or ""))
        return [(read_pod(pod, replica_of), pod) for pod in own]

    async def recent_pods(self, job: Job) -> list[tuple[LoggedPod, Obj]]:
        """Return the pods with their objects, at most `RECENT` seconds old, for metrics that are read
        repeatedly."""
        at, created, known = self._recent.get(job.name, (0.0, None, []))
        if known and created == job.create_time and monotonic() - at < RECENT:
            return known
        pods = await self.pod_objects(job.name, job)
        limit = monotonic() - RECENT
        self._recent = {
            name: known_pods for name, known_pods in self._recent.items() if known_pods[0] > limit
        }
        self._recent[job.name] = monotonic(), job.create_time, pods
        return pods

    def place(self, name: str) -> JobName:
        """Parse a job's name. Raises InvalidRequest."""
        parts = parse_name(name)
        if parts is None:
            raise InvalidRequest(
                f"{name!r} must be the full name of a job in this cluster.",
                fix="Write clusters/CLUSTER/namespaces/NAMESPACE/PLURAL/NAME.",
            )
        return parts

    def _service(self, name: str) -> JobService:
        service = next((jobs for jobs in self._jobs.values() if jobs.owns(name)), None)
        if service is None:
            self.place(name)
            raise InvalidRequest(f"The cluster does not serve jobs of the type in {name!r}.")
        return service


class ReplicaNames:
    """Maps the pods of one job to replicas: by label, or by the order of unnumbered pods."""

    def __init__(self, job: Job, obj: Obj) -> None:
        self._known = {replica.pod: replica.id for replica in job.replicas if replica.pod}
        self._sizes = {group.name: max(1, group.replicas) for group in job.groups}
        self._per_job = {
            str(job_.get("name")): whole(_parallelism(job_)) or 1
            for job_ in elements(obj, "spec", "replicatedJobs")
            if isinstance(job_, Mapping)
        }
        self._used: dict[str, str] = {}
        """The current pod of each replica whose pods have no number; the pod may still run."""

    def __call__(self, pod: Obj) -> str:
        """Return the replica's id, or "" if the pod is not a replica."""
        name = str(mapping(pod.get("metadata")).get("name") or "")
        replica = self._known.get(name)
        if replica is not None:
            return replica
        kept = reduced(pod)
        if kept is None:
            return ""
        group = kept.group or next(iter(self._sizes), "worker")
        if kept.index is not None:
            return f"{group}-{kept.job_index * self._per_job.get(group, 1) + kept.index}"
        names = [f"{group}-{at}" for at in range(self._sizes.get(group, 1))]
        own = next((name_ for name_, of in self._used.items() if of == name and name_ in names), None)
        own = own or next((name_ for name_ in names if name_ not in self._used), names[-1])
        if kept.phase == "Failed":
            # The next pod replaces this pod as the replica's current pod.
            self._used.pop(own, None)
            self._known[name] = own
        else:
            self._used[own] = name
        return own


def _parallelism(job: Mapping[str, Any]) -> Any:
    template = mapping(mapping(mapping(job.get("template")).get("spec")))
    return cast(Any, template.get("parallelism"))
