"""Reads one job with its pods without a watch, for verbs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic
from typing import Any

from tui.backends.errors import BackendError, NotFound, unexpected_reply
from tui.backends.kubernetes.cluster import ConnectedCluster
from tui.backends.kubernetes.discovery import EVENTS, PODS, ApiType, pod_label
from tui.backends.kubernetes.fields import items, mapping
from tui.backends.kubernetes.jobs.queue_positions import QueuePositions
from tui.backends.kubernetes.watch.reflector import ILL_TYPED, PAGE
from tui.backends.kubernetes.watch.source import ApiSource
from tui.domain.core.job import Job
from tui.domain.kubernetes.conditions import queue_of, status_of
from tui.domain.kubernetes.failures.events import (
    NODES_NAMESPACE,
    OF_NODES,
    SELECTOR,
    EventIndex,
    index_of,
)
from tui.domain.kubernetes.jobs import RelatedObjects, job_of
from tui.domain.kubernetes.names import JobName
from tui.domain.kubernetes.pods import Pod, reduced
from tui.domain.kubernetes.waiting import wait_events, waits_for
from tui.domain.kubernetes.workloads import WorkloadKind, at, fields

Obj = Mapping[str, Any]
EVENTS_SECONDS = 5.0
MOST_PAGES = 40
"""Maximum number of pages of Events that are read for one job."""


class SingleReader:
    """Reads single jobs of one kind."""

    def __init__(self, cluster: ConnectedCluster, workload: WorkloadKind) -> None:
        self._cluster = cluster
        self.positions = QueuePositions(cluster)
        self._workload = workload
        self._recent: tuple[tuple[str, str], float, EventIndex | None] = (("", ""), -EVENTS_SECONDS, None)
        """The last read of Events: (job and its version), read time, and the Events."""

    async def object(self, name: JobName) -> tuple[ApiType, Obj]:
        """Return the job's object and its served version. Raises NotFound."""
        lost: BackendError | None = None
        for of in self._cluster.served.jobs[self._workload.key]:
            try:
                path, action = of.path(name.namespace, name.name), f"read the {of.resource} {name.name}"
                obj = await self._cluster.connection.request("GET", path, action=action)
            except NotFound as error:
                lost = lost or error
                continue
            if not at(obj, "metadata", "name"):
                raise unexpected_reply(action, "an object with a name", json.dumps(obj))
            return of, {"apiVersion": of.api_version, "kind": of.kind, **obj}
        raise lost or NotFound(f"The cluster has no {self._workload.kind}.")

    async def job(self, name: JobName, obj: Obj | None = None) -> Job:
        """Return the job with its replicas and the reasons why it waits. Raises BackendError."""
        if obj is None:
            _, obj = await self.object(name)
        try:
            return await self._converted(name, obj)
        except ILL_TYPED as error:
            problem = f"{type(error).__name__}: {error}"
            raise BackendError(f"The {self._workload.kind} {name.name} can't be read ({problem}).") from error

    async def _converted(self, name: JobName, obj: Obj) -> Job:
        pods, job_set, runtime, events, workload, group = await asyncio.gather(
            self.pods(name, obj),
            self._job_set(name),
            self._runtime(name, obj),
            self._events(name.namespace, obj),
            self.queued(name, obj),
            self._pod_group(name, obj),
        )
        place = (name.namespace, self._workload.kind, name.name)
        wait = wait_events(events, place, pods) if events is not None else ()
        related = RelatedObjects(
            pods=pods,
            job_set=job_set,
            runtime=runtime,
            events=events,
            workload=workload,
            waiting=waits_for(obj, pods, workload, group, wait),
        )
        cluster, context = self._cluster.connection.login.cluster, self._cluster.info.name
        job = job_of(obj, self._workload, context, cluster, related)
        return await self.positions.with_position(name, job, workload)

    async def pods(self, name: JobName, obj: Obj) -> list[Pod]:
        """Return the pods of the job and of its parts, without the pods of an earlier job of the same
        name."""
        uid = str(at(obj, "metadata", "uid") or "")
        label = pod_label(self._workload.key)
        items = await self._items(PODS, name.namespace, {"labelSelector": f"{label}={name.name}"})
        pods = [pod for item in items if (pod := reduced(item)) is not None]
        kind = self._workload.kind
        return [pod for pod in pods if pod.owner is None or not pod.owner.is_other_than(kind, uid)]

    async def _job_set(self, name: JobName) -> Obj | None:
        types = self._cluster.served.jobs.get("job_set", ())
        if self._workload.key != "train_job" or not types:
            return None
        reply = await self._may_be(types[0].path(name.namespace, name.name), f"read the JobSet {name.name}")
        return {"apiVersion": types[0].api_version, "kind": "JobSet", **reply} if reply else None

    async def _runtime(self, name: JobName, obj: Obj) -> Obj | None:
        named = fields(obj, "spec", "runtimeRef")
        of = self._cluster.served.part(str(named.get("kind") or "ClusterTrainingRuntime"))
        if self._workload.key != "train_job" or of is None or not named.get("name"):
            return None
        path = of.path(name.namespace, str(named["name"]))
        return await self._may_be(path, f"read the runtime {named['name']}")

    async def queued(self, name: JobName, obj: Obj) -> Obj | None:
        """Return the job's Workload if Kueue manages the job."""
        of = self._cluster.served.part("Workload")
        if of is None or not queue_of(obj):
            return None
        selector = {"labelSelector": f"kueue.x-k8s.io/job-uid={at(obj, 'metadata', 'uid')}"}
        return next(iter(await self._items(of, name.namespace, selector)), None)

    async def _pod_group(self, name: JobName, obj: Obj) -> Obj | None:
        of = self._cluster.served.part("PodGroup")
        if of is None or status_of(obj, self._workload.key).state.terminal:
            return None
        return await self._may_be(of.path(name.namespace, name.name), f"read the PodGroup {name.name}")

    async def _events(self, namespace: str, obj: Obj) -> EventIndex | None:
        """Return the Events of a namespace and of nodes, or `None` if they can't be read.

        The Events are read again only for a changed job or after a while, because a verb reads a job once or
        twice.
        """
        version = str(at(obj, "metadata", "uid")), str(at(obj, "metadata", "resourceVersion"))
        known, read_at, index = self._recent
        if known != version or monotonic() - read_at > EVENTS_SECONDS:
            index = await self._read_events(namespace)
            self._recent = version, monotonic(), index
        return index

    async def _read_events(self, namespace: str) -> EventIndex | None:
        sources = [(namespace, SELECTOR)]
        if namespace != NODES_NAMESPACE:
            sources.append((NODES_NAMESPACE, OF_NODES))
        own, *others = await asyncio.gather(*(self._listed_events(*source) for source in sources))
        if own is None:
            return None
        return index_of([*own, *(event for events in others for event in events or ())])

    async def _listed_events(self, namespace: str, selector: str) -> list[Obj] | None:
        source = ApiSource(self._cluster.connection, EVENTS.path(namespace), "events", fields=selector)
        events: list[Obj] = []
        token = ""
        for _ in range(MOST_PAGES):
            try:
                page = await source.page(PAGE, token)
            except BackendError:
                # The job is shown without Events if they can't be read.
                return events or None
            events += page["items"]
            token = str(fields(page, "metadata").get("continue") or "")
            if not token:
                break
        return events

    async def _items(self, of: ApiType, namespace: str, params: Mapping[str, Any]) -> list[Obj]:
        """Return the objects of a list; the result is empty if the list can't be read, so that the job is
        shown without them."""
        reply = await self._may_be(of.path(namespace), f"list the {of.resource} of a job", params)
        return list(items(mapping(reply).get("items")))

    async def _may_be(self, path: str, action: str, params: Mapping[str, Any] | None = None) -> Obj | None:
        with suppress(BackendError):
            reply: Obj = await self._cluster.connection.request("GET", path, action=action, params=params)
            return reply
        return None
