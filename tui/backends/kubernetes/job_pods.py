"""Jobs of a cluster as the services of logs, shells and figures need them: their objects and their pods."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from time import monotonic
from typing import Any, cast

from tui.backends.errors import BackendError, InvalidRequest
from tui.backends.interface import JobService
from tui.backends.kubernetes.connection import ClusterConnection
from tui.backends.kubernetes.discovery import PODS, Served
from tui.backends.kubernetes.fields import items, mapping
from tui.backends.kubernetes.logs.job_watch import ReplicaOf, belongs, identity
from tui.backends.kubernetes.logs.pods import LoggedPod, read_pod
from tui.domain.core.job import Job
from tui.domain.kubernetes.names import JobName, parse_name
from tui.domain.kubernetes.pods import reduced
from tui.domain.kubernetes.workloads import elements, whole

Obj = Mapping[str, Any]
RECENT = 8.0
"""Seconds for which the pods of a job are taken to be the same."""
_OPERATOR_LABEL = "training.kubeflow.org/job-name"
_LABELS = {
    "train_job": "jobset.sigs.k8s.io/jobset-name",
    "job_set": "jobset.sigs.k8s.io/jobset-name",
    "batch_job": "batch.kubernetes.io/job-name",
}
"""The label of a job's pods by its kind; of the other kinds it is that of the Training Operator."""


class JobPods:
    """Over the services of jobs of one cluster."""

    def __init__(self, connection: ClusterConnection, served: Served, jobs: Mapping[str, JobService]) -> None:
        self._connection = connection
        self._served = served
        self._jobs = jobs
        self._recent: dict[str, tuple[float, datetime | None, list[tuple[LoggedPod, Obj]]]] = {}

    async def job(self, name: str) -> Job:
        """The job. Raises NotFound."""
        return await self._service(name).get(name)

    async def objects(self, name: str) -> tuple[Obj, ...]:
        """The job's object, first, then its Workload, where Kueue has one. Raises NotFound."""
        obj = await self._service(name).spec(name)
        queued = self._served.part("Workload")
        if queued is None:
            return (obj,)
        uid = mapping(obj.get("metadata")).get("uid")
        place = self.place(name)
        params = {"labelSelector": f"kueue.x-k8s.io/job-uid={uid}"}
        try:
            found = await self._connection.request(
                "GET", queued.path(place.namespace), what=f"list the {queued.what}", params=params
            )
        except BackendError:
            # It may not be read by everybody; the job tells the most.
            return (obj,)
        head = {"apiVersion": queued.api_version, "kind": queued.kind}
        return (obj, *({**head, **each} for each in items(mapping(found).get("items"))))

    def selector(self, name: str) -> str:
        """The label selector of a job's pods."""
        place = self.place(name)
        kind = next((key for key, service in self._jobs.items() if service.owns(name)), "")
        return f"{_LABELS.get(kind, _OPERATOR_LABEL)}={place.name}"

    def naming(self, job: Job, obj: Obj) -> ReplicaOf:
        """Says which replica of the job a pod is."""
        return ReplicaNames(job, obj)

    async def pods(self, name: str, job: Job | None = None) -> list[LoggedPod]:
        """The pods of a job as they are now, the oldest first. Raises BackendError."""
        return [pod for pod, _ in await self.pod_objects(name, job)]

    async def pod_objects(self, name: str, job: Job | None = None) -> list[tuple[LoggedPod, Obj]]:
        """The pods of a job with their objects, the oldest first. Raises BackendError."""
        obj = await self._service(name).spec(name)
        replica_of = self.naming(job or await self.job(name), obj)
        place, who = self.place(name), identity(name, obj, self.selector(name))
        found = await self._connection.request(
            "GET",
            PODS.path(place.namespace),
            what=f"list the pods of {place.name}",
            params={"labelSelector": who.selector},
        )
        own = [each for each in items(mapping(found).get("items")) if belongs(each, who)]
        own.sort(key=lambda each: str(mapping(each.get("metadata")).get("creationTimestamp") or ""))
        return [(read_pod(each, replica_of), each) for each in own]

    async def recent_pods(self, job: Job) -> list[tuple[LoggedPod, Obj]]:
        """The pods with their objects as read up to a few seconds ago, for figures that are read
        repeatedly."""
        at, created, known = self._recent.get(job.name, (0.0, None, []))
        if known and created == job.create_time and monotonic() - at < RECENT:
            return known
        found = await self.pod_objects(job.name, job)
        limit = monotonic() - RECENT
        self._recent = {name: each for name, each in self._recent.items() if each[0] > limit}
        self._recent[job.name] = monotonic(), job.create_time, found
        return found

    def place(self, name: str) -> JobName:
        """The parts of a job's name. Raises InvalidRequest."""
        found = parse_name(name)
        if found is None:
            raise InvalidRequest(
                f"{name!r} is not the full name of a job of this cluster.",
                fix="Write clusters/CLUSTER/namespaces/NAMESPACE/PLURAL/NAME.",
            )
        return found

    def _service(self, name: str) -> JobService:
        service = next((each for each in self._jobs.values() if each.owns(name)), None)
        if service is None:
            self.place(name)
            raise InvalidRequest(f"The cluster serves no jobs such as {name!r}.")
        return service


class ReplicaNames:
    """Which replica of one job a pod is: by its labels, or by the order of pods without a number."""

    def __init__(self, job: Job, obj: Obj) -> None:
        self._known = {each.pod: each.id for each in job.replicas if each.pod}
        self._sizes = {group.name: max(1, group.replicas) for group in job.groups}
        self._per_job = {
            str(each.get("name")): whole(_parallelism(each)) or 1
            for each in elements(obj, "spec", "replicatedJobs")
            if isinstance(each, Mapping)
        }
        self._taken: dict[str, str] = {}
        """Unnumbered pods that may run, by their replica."""

    def __call__(self, pod: Obj) -> str:
        """The replica's id, or "" if the pod is not a replica."""
        name = str(mapping(pod.get("metadata")).get("name") or "")
        found = self._known.get(name)
        if found is not None:
            return found
        kept = reduced(pod)
        if kept is None:
            return ""
        group = kept.group or next(iter(self._sizes), "worker")
        if kept.index is not None:
            return f"{group}-{kept.job_index * self._per_job.get(group, 1) + kept.index}"
        names = [f"{group}-{at}" for at in range(self._sizes.get(group, 1))]
        own = next((each for each, of in self._taken.items() if of == name and each in names), None)
        own = own or next((each for each in names if each not in self._taken), names[-1])
        if kept.phase == "Failed":
            # The next pod takes its place.
            self._taken.pop(own, None)
            self._known[name] = own
        else:
            self._taken[own] = name
        return own


def _parallelism(job: Mapping[str, Any]) -> Any:
    template = mapping(mapping(mapping(job.get("template")).get("spec")))
    return cast(Any, template.get("parallelism"))
