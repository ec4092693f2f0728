"""Watches a cluster and links objects by owner: a change of a pod is a change of its job.

Objects of jobs are stored as received (without fields that only the server needs), and pods are reduced on
arrival. After a change, a job is converted on the next read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from tui.backends.errors import BackendError, Unavailable
from tui.backends.kubernetes.connection import ClusterConnection
from tui.backends.kubernetes.discovery import PODS, ApiType, Served
from tui.backends.kubernetes.watch.events import EVERYWHERE, WatchedEvents
from tui.backends.kubernetes.watch.failed_pods import FailedPods
from tui.backends.kubernetes.watch.namespaces import MissingNamespaces
from tui.backends.kubernetes.watch.nodes import NodeReader
from tui.backends.kubernetes.watch.probe import ClusterProbe
from tui.backends.kubernetes.watch.reflector import ILL_TYPED, Reflector
from tui.backends.kubernetes.watch.source import ApiSource
from tui.domain.core.job import Job
from tui.domain.core.replica import NodeShare
from tui.domain.kubernetes.conditions import time_of
from tui.domain.kubernetes.failures.events import ClusterEvent
from tui.domain.kubernetes.jobs import RelatedObjects, job_of
from tui.domain.kubernetes.nodes.shares import node_shares
from tui.domain.kubernetes.pods import Owner, Pod, owner_of, reduced
from tui.domain.kubernetes.waiting import wait_events, waits_for
from tui.domain.kubernetes.workloads import RUNTIME_KINDS, WORKLOADS, at, fields

Obj = Mapping[str, Any]
Place = tuple[str, str, str]
"""Identity of an object: namespace, kind and name."""
_BY_KIND = {workload.kind: workload for workload in WORKLOADS}
_DROPPED = ("managedFields", "selfLink")
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(slots=True)
class Watched:
    """The watch of one API type in one scope."""

    type: ApiType
    scope: str
    reflector: Reflector[Any]


@dataclass(slots=True)
class SeenJobs:
    """Facts from earlier reads that the cluster no longer has, by the job's uid."""

    started: dict[str, datetime] = field(default_factory=dict)
    """Times at which jobs were first seen running."""
    nodes: dict[str, tuple[NodeShare, ...]] = field(default_factory=dict)
    """The nodes of jobs whose pods have been deleted."""


class ClusterWatch:
    """The watches of one cluster. Start the watches once, in the event loop. `scopes`: namespaces or
    `EVERYWHERE`."""

    def __init__(
        self, connection: ClusterConnection, served: Served, context: str, scopes: Sequence[str]
    ) -> None:
        self._connection = connection
        self._context = context
        self.served = served
        self.scopes = tuple(scopes)
        self.probe = ClusterProbe(connection, self.scopes)
        self.namespaces = MissingNamespaces(connection, self.scopes)
        self._watched: list[Watched] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._parts: dict[Place, dict[Place, None]] = {}
        """Child objects by the object that controls them."""
        self._owners: dict[Place, Place] = {}
        self._objects: dict[Place, Any] = {}
        """Every stored object, of any type."""
        self._jobs: dict[Place, Job | str] = {}
        """The last conversion of each job, or why the job can't be converted."""
        self._podless: set[Place] = set()
        """Jobs that were converted before their pods or Events were listed."""
        self._failed = FailedPods()
        self.events = WatchedEvents(self._mark_event)
        self._seen = SeenJobs()
        self.nodes = NodeReader(connection)
        self._new_nodes: set[str] = set()
        self._learning: asyncio.Task[None] | None = None
        self._changed: dict[str, dict[Place, None]] = {key: {} for key in served.jobs}

    # Watching

    def start(self) -> None:
        """Start listing and watching. Idempotent."""
        if self._tasks:
            return
        types = [type_ for types_of_kind in self.served.jobs.values() for type_ in types_of_kind]
        for of in [*types, PODS, *self.served.parts]:
            for scope in self.scopes if of.namespaced else (EVERYWHERE,):
                source = ApiSource(self._connection, of.path(scope), of.resource)
                reduce: Callable[[Obj], Any] = reduced if of is PODS else partial(_kept, of)
                reflector: Reflector[Any] = Reflector(of.resource, source, reduce, lambda key: None)
                reflector.changed = partial(self._take, of, reflector)
                self._watched.append(Watched(of, scope, reflector))
                name = f"watch {of.resource} {scope}".rstrip()
                self._tasks.append(asyncio.create_task(reflector.run(), name=name))
        for events_reflector in self.events.open(self._connection, self.scopes):
            self._tasks.append(asyncio.create_task(events_reflector.run(), name="watch events"))

    async def aclose(self) -> None:
        """Stop watching."""
        tasks, self._tasks = self._tasks, []
        if self._learning is not None:
            tasks.append(self._learning)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._watched.clear()
        self.events.clear()

    def of_kind(self, key: str) -> list[Watched]:
        """Return the watches of a kind's jobs."""
        types = self.served.jobs.get(key, ())
        return [watched for watched in self._watched if watched.type in types]

    def of_pods(self) -> list[Watched]:
        """Return the watches of pods."""
        return [watched for watched in self._watched if watched.type is PODS]

    def of_parts(self) -> list[Watched]:
        """Return the watches of objects that jobs consist of or wait for."""
        made_of = {"Pod", "Job", "JobSet"}
        return [
            watched
            for watched in self._watched
            if watched.type.kind in made_of or watched.type in self.served.parts
        ]

    def live(self, key: str, namespace: str) -> bool:
        """Return whether the jobs of a kind in this namespace, and their pods, are up to date."""
        watches = [
            watched
            for watched in (*self.of_kind(key), *self.of_pods())
            if watched.scope in {EVERYWHERE, namespace}
        ]
        return bool(watches) and all(watched.reflector.live for watched in watches)

    def error(self, key: str, scope: str) -> BackendError | None:
        """Return the reason why the jobs of a kind in a scope can't be read now."""
        errors = [watched.reflector.error for watched in self.of_kind(key) if watched.scope == scope]
        return next((error for error in errors if error is not None), None)

    def unlisted(self, key: str, scope: str) -> BackendError | None:
        """Return an error while the jobs of a kind in a scope have not all been listed."""
        if all(watched.reflector.synced.is_set() for watched in self.of_kind(key) if watched.scope == scope):
            return None
        return Unavailable(
            f"The {key.replace('_', ' ')}s of {scope or 'the cluster'} are still being listed."
        )

    def listed(self, key: str) -> bool:
        """Return whether all jobs of a kind have been listed once."""
        watches = self.of_kind(key)
        return bool(watches) and all(watched.reflector.synced.is_set() for watched in watches)

    def as_of(self, key: str, scope: str) -> datetime | None:
        """Return the time as of which the jobs of a kind in a scope are known."""
        times = [watched.reflector.as_of for watched in self.of_kind(key) if watched.scope == scope]
        known = [time for time in times if time is not None]
        return min(known) if known and len(known) == len(times) else None

    # Jobs

    def places(self, key: str) -> list[Place]:
        """Return the identities of a kind's jobs, without parts of jobs of other kinds."""
        workload = next(workload_ for workload_ in WORKLOADS if workload_.key == key)
        return [place for place in self._objects if place[1] == workload.kind and self._is_job(place)]

    def job(self, place: Place) -> Job | None:
        """Return the job with this identity, or `None` if there is none."""
        obj = self._objects.get(place)
        if obj is None or not self._is_job(place):
            return None
        known = self._jobs.get(place)
        if known is None:
            try:
                known = self._converted(place, obj)
            except ILL_TYPED as error:
                known = f"{type(error).__name__}: {error}"
            self._jobs[place] = known
        return known if isinstance(known, Job) else None

    def unreadable(self, key: str, namespace: str) -> BackendError | None:
        """Return an error that names the objects of a kind that can't be read: those in a namespace, and
        those without a namespace."""
        kind = next(workload.kind for workload in WORKLOADS if workload.key == key)
        known = {
            f"{place[0]}/{place[2]}": reason
            for place, reason in self._jobs.items()
            if isinstance(reason, str) and place[1] == kind
        }
        for watched in self.of_kind(key):
            known |= watched.reflector.unreadable
        reasons = [
            f"{name.strip('/') or 'without a name'} ({why})"
            for name, why in known.items()
            if name.partition("/")[0] in {"", namespace}
        ]
        if not reasons:
            return None
        return BackendError(
            f"{len(reasons)} {kind} can't be read: {', '.join(reasons[:3])}.",
            fix="The other jobs are shown; `kubectl get -o yaml` shows the object.",
        )

    def take_changed(self, key: str) -> list[Place]:
        """Return the identities of jobs that have changed since the last call. Pass identities that were not
        handled to `put_back`."""
        for place in [place_ for place_ in self._podless if self._all_known(place_)]:
            self._podless.discard(place)
            self._mark_changed(place)
        places = list(self._changed[key])
        self._changed[key].clear()
        return places

    def put_back(self, key: str, places: Iterable[Place]) -> None:
        """Report these identities again in the next `take_changed`."""
        self._changed[key].update(dict.fromkeys(places))

    def object_at(self, place: Place) -> Obj | None:
        """Return the object with this identity, or `None` if there is none."""
        obj = self._objects.get(place)
        return obj if isinstance(obj, Mapping) else None

    def pods(self) -> dict[str, Pod]:
        """Return the pods of all jobs, by `namespace/name`."""
        reflected = [watched.reflector.objects for watched in self.of_pods()]
        return {key: pod for objects in reflected for key, pod in objects.items()}

    def pods_of(self, place: Place) -> list[Pod]:
        """Return the pods of an object and its parts, without the pods of an earlier object of the same
        name."""
        pods: list[Pod] = []
        uid = str(at(self._objects.get(place) or {}, "metadata", "uid") or "")
        for part in self._parts.get(place, ()):
            obj = self._objects.get(part)
            owner = obj.owner if isinstance(obj, Pod) else owner_of(obj or {})
            if owner is not None and owner.is_other_than(place[1], uid):
                continue
            if isinstance(obj, Pod):
                pods.append(obj)
            else:
                pods += self.pods_of(part)
        return pods

    def part(self, place: Place, kind: str) -> Obj | None:
        """Return the first object of this kind that an object controls, e.g. a job's Workload."""
        part_place = next((part for part in self._parts.get(place, ()) if part[1] == kind), None)
        return self.object_at(part_place) if part_place else None

    def _converted(self, place: Place, obj: Obj) -> Job:
        pods = self.pods_of(place)
        uid = str(at(obj, "metadata", "uid") or "")
        index, workload = self.events.readable(place[0]), self.part(place, "Workload")
        facts = RelatedObjects(
            pods=pods,
            job_set=self.part(place, "JobSet"),
            runtime=self._runtime(place, obj),
            waiting=waits_for(
                obj,
                pods,
                workload,
                self.part(place, "PodGroup"),
                wait_events(index, place, pods) if index is not None else (),
            ),
            seen=self._failed.of(place, pods, time_of(at(obj, "metadata", "creationTimestamp"))),
            events=index,
            workload=workload,
            nodes=self._nodes_of(uid, pods),
            started=self._seen.started.get(uid),
        )
        job = job_of(obj, _BY_KIND[place[1]], self._context, self._connection.login.cluster, facts)
        if job.start_time is not None and not job.state.terminal:
            self._seen.started[uid] = job.start_time
        if not self._all_known(place):
            self._podless.add(place)
        if self._pods_known(place):
            return job
        errors = [str(watched.reflector.error) for watched in self._of_pods(place) if watched.reflector.error]
        why = errors[0] if errors else "they have not been listed yet."
        reason = f"{job.reason.rstrip('.')}. The job's pods are unknown: {why}"
        return replace(job, reason=reason.removeprefix(". "))

    def _nodes_of(self, uid: str, pods: Sequence[Pod]) -> tuple[NodeShare, ...]:
        self._new_nodes |= {pod.node for pod in pods if pod.node} - self.nodes.machines.keys()
        shares = node_shares(pods, self.nodes.machines)
        if shares:
            self._seen.nodes[uid] = shares
        # Pods that have ended may be deleted, and their nodes too.
        return shares or self._seen.nodes.get(uid, ())

    async def learn_nodes(self) -> None:
        """Read the unknown nodes of pods. The jobs of these pods count as changed."""
        await self._learn({pod.node for pod in self.pods().values()})

    def learn_nodes_later(self) -> None:
        """Read the nodes that the conversion of jobs discovered, in the background."""
        if not self._new_nodes or (self._learning is not None and not self._learning.done()):
            return
        names, self._new_nodes = self._new_nodes, set()
        self._learning = asyncio.create_task(self._learn(names), name="read nodes")

    async def _learn(self, names: set[str]) -> None:
        learned = await self.nodes.learn(names)
        if not self.nodes.denied:
            self._new_nodes |= names - self.nodes.machines.keys()
        for watched in self.of_pods() if learned else ():
            for key, pod in watched.reflector.objects.items():
                if pod.node in learned:
                    self._mark_changed(_place(PODS, key))

    def _pods_known(self, place: Place) -> bool:
        """Return whether the pods of a job, and the objects between them and the job, have been listed."""
        return all(watched.reflector.synced.is_set() for watched in self._of_pods(place))

    def _all_known(self, place: Place) -> bool:
        """Return whether the job's pods are known, and its Events have been listed or can't be listed."""
        return self._pods_known(place) and self.events.settled(place[0])

    def _of_pods(self, place: Place) -> list[Watched]:
        watches = self.of_pods()
        if place[1] in {"TrainJob", "JobSet"}:
            watches += [*self.of_kind("batch_job"), *self.of_kind("job_set")]
        return [watched for watched in watches if watched.scope in {EVERYWHERE, place[0]}]

    def _runtime(self, place: Place, obj: Obj) -> Obj | None:
        named = fields(obj, "spec", "runtimeRef")
        kind = str(named.get("kind") or "ClusterTrainingRuntime")
        namespace = "" if kind == "ClusterTrainingRuntime" else place[0]
        return self.object_at((namespace, kind, str(named.get("name") or ""))) if named else None

    def _is_job(self, place: Place) -> bool:
        """Return whether the object is a top-level job: an object that a job controls is a part of that
        job."""
        owner = self._owners.get(place)
        return owner is None or owner[1] not in _BY_KIND

    # Changes

    def _take(self, of: ApiType, reflector: Reflector[Any], key: str) -> None:
        """Store a reflector's object or its deletion."""
        obj = reflector.objects.get(key)
        place = _place(of, key)
        before = self._owners.get(place)
        owner = None if obj is None else _owner(place, obj)
        if obj is None:
            self._objects.pop(place, None)
            self._failed.forget(place)
        else:
            self._objects[place] = obj
        if isinstance(obj, Pod) and owner is not None:
            self._failed.note(self._top(owner), obj)
        if before != owner:
            self._set_owner(place, before, owner)
            self._mark_changed(before)
        self._mark_changed(place)
        if of.kind in RUNTIME_KINDS:
            for job in self.places("train_job") if "train_job" in self._changed else ():
                self._mark_changed(job)

    def _top(self, place: Place) -> Place:
        """Return the topmost owner of a part. Intermediate parts may be replaced together with their pods."""
        seen = set()
        while place in self._owners and place not in seen:
            seen.add(place)
            place = self._owners[place]
        return place

    def _set_owner(self, place: Place, before: Place | None, owner: Place | None) -> None:
        if before is not None:
            self._parts[before].pop(place, None)
            if not self._parts[before]:
                del self._parts[before]
        if owner is None:
            self._owners.pop(place, None)
        else:
            self._owners[place] = owner
            self._parts.setdefault(owner, {})[place] = None

    def _mark_event(self, namespace: str, event: ClusterEvent) -> None:
        """Mark the jobs that an Event concerns, directly or through a pod or a node that ran their pods."""
        if event.kind == "Node":
            for pod in self.events.index.assigned(event.about):
                self._mark_pod(*pod)
        elif event.kind == "Pod":
            self._mark_pod(namespace, event.about)
        else:
            self._mark_changed((namespace, event.kind, event.about))

    def _mark_pod(self, namespace: str, name: str) -> None:
        """Mark the job of a pod as changed. The name of a deleted pod identifies its job."""
        place = (namespace, "Pod", name)
        if place in self._objects:
            self._mark_changed(place)
            return
        stem = name
        while "-" in stem:
            stem = stem.rpartition("-")[0]
            for kind in _BY_KIND:
                if (namespace, kind, stem) in self._objects:
                    self._mark_changed((namespace, kind, stem))

    def _mark_changed(self, place: Place | None) -> None:
        """Mark an object's own job and the jobs that own it as changed."""
        seen = set()
        while place is not None and place not in seen:
            seen.add(place)
            workload = _BY_KIND.get(place[1])
            if workload is not None and workload.key in self._changed:
                self._jobs.pop(place, None)
                self._changed[workload.key][place] = None
            place = self._owners.get(place)


def _place(of: ApiType, key: str) -> Place:
    namespace, _, name = key.partition("/")
    return namespace, of.kind, name


def _owner(place: Place, obj: Any) -> Place | None:
    owner: Owner | None = obj.owner if isinstance(obj, Pod) else owner_of(obj)
    return (place[0], owner.kind, owner.name) if owner else None


def _kept(of: ApiType, obj: Obj) -> Obj:
    """Return an object without fields that only the server needs, and with its type, which list items
    lack."""
    metadata = {k: v for k, v in fields(obj, "metadata").items() if k not in _DROPPED}
    notes = fields(metadata, "annotations")
    if _APPLIED in notes:
        metadata["annotations"] = {k: v for k, v in notes.items() if k != _APPLIED}
    return {**obj, "apiVersion": of.api_version, "kind": of.kind, "metadata": metadata}
