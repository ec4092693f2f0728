"""Reads one job with its pods by calls, where nothing is watched: a verb asks once and ends."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from tui.backends.errors import BackendError, NotFound
from tui.backends.kubernetes.cluster import ConnectedCluster
from tui.backends.kubernetes.discovery import EVENTS, PODS, ApiType
from tui.domain.job import Job
from tui.domain.kubernetes.conditions import queue_of
from tui.domain.kubernetes.failures import Failure, about_node, exits_of, from_events, node_of
from tui.domain.kubernetes.jobs import Found, job_of
from tui.domain.kubernetes.names import JobName
from tui.domain.kubernetes.pods import Pod, reduced
from tui.domain.kubernetes.waiting import events_of, waits_for
from tui.domain.kubernetes.workloads import Workload, at, fields
from tui.domain.states import JobState

Obj = Mapping[str, Any]
MAY_WAIT = frozenset({JobState.QUEUED, JobState.PENDING, JobState.RESTARTING})
MOST_FAILURES = 4
"""Replicas whose failure is looked up: each costs two calls."""
_POD_LABELS = {
    "train_job": "jobset.sigs.k8s.io/jobset-name",
    "job_set": "jobset.sigs.k8s.io/jobset-name",
    "batch_job": "batch.kubernetes.io/job-name",
}
"""The label of a job's pods; of the other kinds it is that of the Training Operator."""
_OPERATOR_LABEL = "training.kubeflow.org/job-name"


class SingleReader:
    """One job at a time of a kind."""

    def __init__(self, cluster: ConnectedCluster, workload: Workload) -> None:
        self._cluster = cluster
        self._workload = workload

    async def object(self, name: JobName) -> tuple[ApiType, Obj]:
        """The job's object, and in which version it is served. Raises NotFound."""
        lost: BackendError | None = None
        for of in self._cluster.served.jobs[self._workload.key]:
            try:
                found = await self._read(
                    of.path(name.namespace, name.name), f"read the {of.what} {name.name}"
                )
            except NotFound as error:
                lost = lost or error
                continue
            return of, {"apiVersion": of.api_version, "kind": of.kind, **found}
        raise lost or NotFound(f"The cluster has no {self._workload.kind}.")

    async def job(self, name: JobName, obj: Obj | None = None) -> Job:
        """The job with its replicas, and why it waits."""
        if obj is None:
            _, obj = await self.object(name)
        pods, job_set, runtime, workload = await asyncio.gather(
            self.pods(name), self._job_set(name), self._runtime(name, obj), self.queued(name, obj)
        )
        cluster, context = self._cluster.connection.login.cluster, self._cluster.info.name
        failures = await self._failures(name, pods)
        found = Found(pods=pods, job_set=job_set, runtime=runtime, failures=failures, workload=workload)
        job = job_of(obj, self._workload, context, cluster, found)
        if job.state not in MAY_WAIT:
            return job
        waiting = await self.waiting(name, obj, pods)
        return job_of(obj, self._workload, context, cluster, replace(found, waiting=waiting))

    async def pods(self, name: JobName) -> list[Pod]:
        """Its pods, and those of its parts."""
        label = _POD_LABELS.get(self._workload.key, _OPERATOR_LABEL)
        items = await self._items(PODS, name.namespace, {"labelSelector": f"{label}={name.name}"})
        return [pod for each in items if (pod := reduced(each)) is not None]

    async def waiting(self, name: JobName, obj: Obj, pods: Sequence[Pod]) -> tuple[str, ...]:
        """Why it does not run, the events of its pods among the reasons."""
        workload, group, events = await asyncio.gather(
            self.queued(name, obj), self._pod_group(name), self._events(name, pods)
        )
        return waits_for(obj, pods, workload, group, events_of(events))

    async def _failures(self, name: JobName, pods: Sequence[Pod]) -> tuple[Failure, ...]:
        """How replicas failed whose pods are replaced, from what Events still say of them."""
        if self._workload.key in _POD_LABELS:
            return ()
        exits = exits_of(await self._events_about(name.namespace, name.name, reason="ExitedWithCode"))
        now = {pod.name: pod for pod in pods}
        # A pod that is still there says itself how it failed.
        gone = [
            each for each, (_, time, _) in exits.items()
            if each in now and time and now[each].created and time <= now[each].created  # type: ignore[operator]
        ]  # fmt: skip
        read = [self._failure(now[each], *exits[each]) for each in gone[:MOST_FAILURES]]
        return tuple(await asyncio.gather(*read))

    async def _failure(self, pod: Pod, code: int, time: datetime | None, count: int) -> Failure:
        own = await self._events_about(pod.namespace, pod.name)
        node = node_of(own, time)
        # Events of nodes, which have no namespace, are kept in `default`.
        around = await self._events_about("default", node) if node else []
        found = from_events(pod, code, time, own, [each for each in around if about_node(each)])
        return replace(found, count=count)

    async def _events_about(self, namespace: str, about: str, **selected: str) -> list[Obj]:
        chosen = {"involvedObject.name": about, **selected}
        selector = ",".join(f"{field}={value}" for field, value in chosen.items())
        return await self._items(EVENTS, namespace, {"fieldSelector": selector})

    async def _job_set(self, name: JobName) -> Obj | None:
        types = self._cluster.served.jobs.get("job_set", ())
        if self._workload.key != "train_job" or not types:
            return None
        found = await self._may_be(types[0].path(name.namespace, name.name), f"read the JobSet {name.name}")
        return {"apiVersion": types[0].api_version, "kind": "JobSet", **found} if found else None

    async def _runtime(self, name: JobName, obj: Obj) -> Obj | None:
        named = fields(obj, "spec", "runtimeRef")
        of = self._cluster.served.part(str(named.get("kind") or "ClusterTrainingRuntime"))
        if self._workload.key != "train_job" or of is None or not named.get("name"):
            return None
        path = of.path(name.namespace, str(named["name"]))
        return await self._may_be(path, f"read the runtime {named['name']}")

    async def queued(self, name: JobName, obj: Obj) -> Obj | None:
        """Its Workload, where Kueue manages it."""
        of = self._cluster.served.part("Workload")
        if of is None or not queue_of(obj):
            return None
        selector = {"labelSelector": f"kueue.x-k8s.io/job-uid={at(obj, 'metadata', 'uid')}"}
        return next(iter(await self._items(of, name.namespace, selector)), None)

    async def _pod_group(self, name: JobName) -> Obj | None:
        of = self._cluster.served.part("PodGroup")
        if of is None:
            return None
        return await self._may_be(of.path(name.namespace, name.name), f"read the PodGroup {name.name}")

    async def _events(self, name: JobName, pods: Sequence[Pod]) -> list[Obj]:
        """Events of the job and of two pods: those of the others say the same."""
        about = [name.name, *(pod.name for pod in pods if not pod.started)][:3]
        lists = await asyncio.gather(*(self._events_about(name.namespace, each) for each in about))
        return [event for found in lists for event in found]

    async def _items(self, of: ApiType, namespace: str, params: Mapping[str, Any]) -> list[Obj]:
        """Objects of a list; none of what may not be read: a job is shown without them."""
        found = await self._may_be(of.path(namespace), f"list the {of.what} of a job", params)
        return list((found or {}).get("items") or ())

    async def _may_be(self, path: str, what: str, params: Mapping[str, Any] | None = None) -> Obj | None:
        try:
            return await self._read(path, what, params)
        except BackendError:
            return None

    async def _read(self, path: str, what: str, params: Mapping[str, Any] | None = None) -> Obj:
        found: Obj = await self._cluster.connection.request("GET", path, what=what, params=params)
        return found
