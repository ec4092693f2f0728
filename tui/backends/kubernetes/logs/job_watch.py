"""Watches the pods and events of a job while its log is followed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tui.backends.errors import BackendError, NotFound, PermissionDenied
from tui.backends.kubernetes.connection import ClusterConnection
from tui.backends.kubernetes.discovery import EVENTS
from tui.backends.kubernetes.fields import mapping
from tui.backends.kubernetes.job_pods import JobPods
from tui.backends.kubernetes.logs import node_events
from tui.backends.kubernetes.logs.lines.stamped import SECOND, stamp_at
from tui.backends.kubernetes.logs.node_events import NodeEvents
from tui.backends.kubernetes.logs.pods import JobIdentity, LoggedPod, ReplicaOf, belongs, read_pod, replica_in
from tui.backends.kubernetes.logs.replaced import Generation, replaced_pods
from tui.backends.kubernetes.logs.runs import ContainerState
from tui.backends.kubernetes.logs.service_entries import condition_entries, event_entry, pod_entries
from tui.backends.kubernetes.watch.reflector import Reflector
from tui.backends.kubernetes.watch.source import ApiSource
from tui.domain.core.log_entry import LogEntry

Obj = Mapping[str, Any]
_GROUP = r"(?:master|worker|ps|chief|evaluator|launcher|node|dataset-initializer|model-initializer)"


class PodView:
    """The current state of one pod."""

    def __init__(self, pod: LoggedPod, obj: Obj, watch: JobWatch) -> None:
        self.pod = pod
        self.object = obj
        self.gone = False
        self._watch = watch
        self._changed = asyncio.Event()

    def state_of(self, container: str) -> ContainerState:
        """Return the state of one of the pod's containers."""
        return self.pod.containers.get(container, ContainerState())

    def update(self, pod: LoggedPod, obj: Obj) -> None:
        """Take the state from a watch."""
        self.pod, self.object = pod, obj
        self.wake()

    def lose(self) -> None:
        """Record that the pod was deleted."""
        self.gone = True
        self.wake()

    def wake(self) -> None:
        """Wake all waiting readers."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self, seconds: float) -> None:
        """Wait for a change, at most `seconds`."""
        if not self.gone:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._changed.wait()

    async def refresh(self) -> None:
        """Read the pod again."""
        await self._watch.refresh(self)


@dataclass(slots=True)
class JobWatch:
    """Watches a job's pods and events. The watch calls `on_pod` for new pods and `on_service` for cluster
    entries."""

    connection: ClusterConnection
    job: JobIdentity
    access: JobPods
    replica_of: ReplicaOf
    on_pod: Callable[[PodView], None]
    on_service: Callable[[Iterable[LogEntry]], None]
    views: dict[str, PodView] = field(default_factory=dict)
    """Views of every observed pod, by uid."""
    _pods: Reflector[Obj] | None = None
    _events: Reflector[Obj] | None = None
    _nodes: NodeEvents = field(default_factory=NodeEvents)

    async def run(self, *, events: bool) -> None:
        """Watch until cancelled."""
        base = f"/api/v1/namespaces/{self.job.namespace}"
        source = ApiSource(self.connection, f"{base}/pods", "pods of the job", self.job.selector)
        self._pods = Reflector(
            "pods of the job", source, self._own, self._pod_changed, last=self._pod_deleted
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pods.run())
            if events:
                source = ApiSource(self.connection, f"{base}/events", "events")
                self._events = Reflector("events", source, self._event, lambda _key: None)
                group.create_task(self._events.run())
                if self.job.namespace != node_events.NAMESPACE:
                    # Some users may not read events of nodes. The log then has only the events of the job.
                    source = ApiSource(
                        self.connection, node_events.PATH, "events of nodes", fields=node_events.FIELDS
                    )
                    nodes: Reflector[Obj] = Reflector(
                        "events of nodes", source, self._event, lambda _key: None
                    )
                    group.create_task(nodes.run())

    @property
    def synced(self) -> bool:
        """Whether all pods are known."""
        return self._pods is not None and self._pods.synced.is_set()

    async def wait(self) -> None:
        """Wait until all pods are known; `run` must have begun."""
        assert self._pods is not None
        await self._pods.synced.wait()

    @property
    def events_known(self) -> bool:
        """Whether all events are known, or can't be read."""
        events = self._events
        return events is None or events.synced.is_set() or events.error is not None

    @property
    def error(self) -> BackendError | None:
        """The reason why pods can't be watched now."""
        return self._pods.error if self._pods is not None else None

    @property
    def events_error(self) -> BackendError | None:
        """The reason why events can't be watched now."""
        return self._events.error if self._events is not None else None

    async def refresh(self, view: PodView) -> None:
        """Read one pod again."""
        path = f"/api/v1/namespaces/{view.pod.namespace}/pods/{view.pod.name}"
        try:
            obj = mapping(await self.connection.request("GET", path, action=f"read pod {view.pod.name}"))
        except NotFound:
            view.lose()
            return
        pod = read_pod(obj, self.replica_of)
        if pod.uid != view.pod.uid:
            view.lose()
        elif _version(obj) >= _version(view.object):
            self._take(pod, obj)

    def _own(self, obj: Obj) -> Obj | None:
        return obj if belongs(obj, self.job) else None

    def _pod_changed(self, key: str) -> None:
        assert self._pods is not None
        obj = self._pods.objects.get(key)
        namespace, _, name = key.partition("/")
        uid = "" if obj is None else str(mapping(obj.get("metadata")).get("uid"))
        for view in self.views.values():
            if view.pod.name == name and view.pod.namespace == namespace and view.pod.uid != uid:
                view.lose()
        if obj is not None:
            self._take(read_pod(obj, self.replica_of), obj)

    def _pod_deleted(self, obj: Obj) -> None:
        """Read the last state of a deleted pod, because no other watch event may have reported how the pod
        ended."""
        if belongs(obj, self.job):
            self._take(read_pod(obj, self.replica_of), obj)

    def _take(self, pod: LoggedPod, obj: Obj) -> None:
        view = self.views.get(pod.uid)
        if view is None:
            view = self.views[pod.uid] = PodView(pod, obj, self)
            self.on_pod(view)
        else:
            view.update(pod, obj)
        self.on_service(self.status_entries(pod, obj))

    def status_entries(self, pod: LoggedPod, obj: Obj) -> Iterator[LogEntry]:
        """Yield entries from a pod's status, and events of its node that have become relevant."""
        yield from self._nodes.use(pod.node, pod.created)
        yield from pod_entries(obj, pod.replica)
        # List items lack their kind.
        yield from condition_entries({"kind": "Pod", **obj}, self.job.object_name)

    def _event(self, obj: Obj) -> None:
        self.on_service(self.event_entries(obj))

    def event_entries(self, event: Obj) -> list[LogEntry]:
        """Return the entries of an event about the job, its pods or their nodes."""
        if node_events.is_about_node(event):
            return list(self._nodes.add(event))
        entry = self.entry_of(event)
        if entry is None:
            return []
        return [entry, *self._nodes.assigned(event, stamp_at(entry.timestamp))]

    def entry_of(self, event: Obj) -> LogEntry | None:
        """Return the entry of an event that concerns the job or an object made for the job, or `None` if
        there is none."""
        about = mapping(event.get("involvedObject"))
        uid, name = about.get("uid"), str(about.get("name") or "")
        known = uid and (uid == self.job.uid or uid in self.views)
        if not known and not _is_named_after(name, str(about.get("kind") or ""), self.job.object_name):
            return None
        view = self.views.get(str(uid))
        entry = event_entry(event, self.job.object_name, view.pod.replica if view is not None else "")
        if entry is None or known or self.job.created is None:
            return entry
        # An earlier job may have had the same name.
        return entry if int(entry.timestamp.timestamp()) * SECOND >= self.job.created else None

    async def list_events(self) -> list[dict[str, Any]]:
        """Return the events of the job's namespace and of nodes. Raises BackendError."""
        path, action = EVENTS.path(self.job.namespace), "list the events"
        events = await self.connection.items(path, action=action)
        if self.job.namespace != node_events.NAMESPACE:
            params = {"fieldSelector": node_events.FIELDS}
            with suppress(PermissionDenied):
                events += await self.connection.items(node_events.PATH, action=action, params=params)
        return events

    def replaced(
        self, events: Collection[Obj], groups: Iterable[str], pods: Iterable[LoggedPod]
    ) -> list[Generation]:
        """Return the pods of the job that ran and are not in `pods`, as found in events."""
        own, names = self.job.object_name, list(groups)

        def is_own(event: Obj) -> bool:
            return self.entry_of(event) is not None

        return replaced_pods(events, self.job.uid, is_own, lambda pod: replica_in(pod, own, names), pods)

    async def job_entries(self) -> list[LogEntry]:
        """Return entries from the conditions of the job and its workload.

        Raises:
            NotFound: the job was deleted, even if another job now has its name.
        """
        objects = await self.access.objects(self.job.name)
        if not objects or mapping(objects[0].get("metadata")).get("uid") != self.job.uid:
            raise NotFound(f"{self.job.object_name} was deleted, and another job now has its name.")
        return [entry for obj in objects for entry in condition_entries(obj, self.job.object_name)]


def _is_named_after(name: str, kind: str, job: str) -> bool:
    if kind == "Workload":
        return re.search(rf"(?:^|-){re.escape(job)}-[a-z0-9]{{4,8}}$", name) is not None
    if kind == "Pod":
        return re.match(rf"{re.escape(job)}-{_GROUP}-", name) is not None
    return name == job or re.fullmatch(rf"{re.escape(job)}-{_GROUP}-\d+", name) is not None


def _version(obj: Obj) -> int:
    text = str(mapping(obj.get("metadata")).get("resourceVersion") or "")
    return int(text) if text.isascii() and text.isdigit() else 0
