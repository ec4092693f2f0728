"""All that is watched in a cluster, tied together by owners: a pod's change is one of the job that it is of.

Objects of jobs are kept as the server sends them (without what only it needs), pods are reduced at arrival.
A job is converted when it is asked for after something of it has changed.
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
from tui.backends.kubernetes.watch.asked import AskedRead
from tui.backends.kubernetes.watch.events import EVERYWHERE, WatchedEvents
from tui.backends.kubernetes.watch.failed_pods import FailedPods
from tui.backends.kubernetes.watch.namespaces import MissingNamespaces
from tui.backends.kubernetes.watch.nodes import NodeReader
from tui.backends.kubernetes.watch.reflector import Reflector
from tui.backends.kubernetes.watch.source import ApiSource
from tui.domain.core.job import Job
from tui.domain.core.replica import NodeShare
from tui.domain.kubernetes.conditions import time_of
from tui.domain.kubernetes.failures.events import ClusterEvent
from tui.domain.kubernetes.jobs import Found, job_of
from tui.domain.kubernetes.nodes.shares import node_shares
from tui.domain.kubernetes.pods import Owner, Pod, owner_of, reduced
from tui.domain.kubernetes.waiting import wait_events, waits_for
from tui.domain.kubernetes.workloads import RUNTIME_KINDS, WORKLOADS, at, fields

Obj = Mapping[str, Any]
Place = tuple[str, str, str]
"""Namespace, kind and name of an object."""
_BY_KIND = {workload.kind: workload for workload in WORKLOADS}
_DROPPED = ("managedFields", "selfLink")
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(slots=True)
class Watched:
    """One type in one scope."""

    type: ApiType
    scope: str
    reflector: Reflector[Any]


@dataclass(slots=True)
class SeenJobs:
    """What earlier readings said of jobs, by their uids, and the cluster no longer says."""

    started: dict[str, datetime] = field(default_factory=dict)
    """When a job was first seen to run."""
    nodes: dict[str, tuple[NodeShare, ...]] = field(default_factory=dict)
    """The nodes of a job whose pods have been deleted."""


class ClusterWatch:
    """Start it once; it belongs to the event loop. `scopes` are namespaces, or `EVERYWHERE` alone."""

    def __init__(
        self, connection: ClusterConnection, served: Served, context: str, scopes: Sequence[str]
    ) -> None:
        self._connection = connection
        self._context = context
        self.served = served
        self.scopes = tuple(scopes)
        self.asked = AskedRead(connection, self.scopes)
        self.namespaces = MissingNamespaces(connection, self.scopes)
        self._watched: list[Watched] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._parts: dict[Place, dict[Place, None]] = {}
        """What an object controls, by its owner."""
        self._owners: dict[Place, Place] = {}
        self._objects: dict[Place, Any] = {}
        """Every object that is kept, whatever its type."""
        self._jobs: dict[Place, Job] = {}
        """Jobs as last converted."""
        self._podless: set[Place] = set()
        """Jobs that were converted before their pods, or their Events, were listed."""
        self._failed = FailedPods()
        self.events = WatchedEvents(self._tell_event)
        self._seen = SeenJobs()
        self.nodes = NodeReader(connection)
        self._new_nodes: set[str] = set()
        self._learning: asyncio.Task[None] | None = None
        self._changed: dict[str, dict[Place, None]] = {key: {} for key in served.jobs}

    # Watching

    def start(self) -> None:
        """Begin to list and watch. Idempotent."""
        if self._tasks:
            return
        types = [each for found in self.served.jobs.values() for each in found]
        for of in [*types, PODS, *self.served.parts]:
            for scope in self.scopes if of.namespaced else (EVERYWHERE,):
                source = ApiSource(self._connection, of.path(scope), of.what)
                reduce: Callable[[Obj], Any] = reduced if of is PODS else partial(_kept, of)
                reflector: Reflector[Any] = Reflector(of.what, source, reduce, lambda key: None)
                reflector.changed = partial(self._take, of, reflector)
                self._watched.append(Watched(of, scope, reflector))
                name = f"watch {of.what} {scope}".rstrip()
                self._tasks.append(asyncio.create_task(reflector.run(), name=name))
        for each in self.events.open(self._connection, self.scopes):
            self._tasks.append(asyncio.create_task(each.run(), name="watch events"))

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
        """The watches of the jobs of a kind."""
        types = self.served.jobs.get(key, ())
        return [each for each in self._watched if each.type in types]

    def of_pods(self) -> list[Watched]:
        """The watches of pods."""
        return [each for each in self._watched if each.type is PODS]

    def of_parts(self) -> list[Watched]:
        """The watches of what jobs are made of, or wait for."""
        made_of = {"Pod", "Job", "JobSet"}
        return [each for each in self._watched if each.type.kind in made_of or each.type in self.served.parts]

    def live(self, key: str, namespace: str) -> bool:
        """Whether jobs of a kind there, and their pods, are as the cluster has them now."""
        found = [
            each for each in (*self.of_kind(key), *self.of_pods()) if each.scope in {EVERYWHERE, namespace}
        ]
        return bool(found) and all(each.reflector.live for each in found)

    def error(self, key: str, scope: str) -> BackendError | None:
        """Why the jobs of a kind can't be read in a scope now."""
        found = [each.reflector.error for each in self.of_kind(key) if each.scope == scope]
        return next((error for error in found if error is not None), None)

    def unlisted(self, key: str, scope: str) -> BackendError | None:
        """That the jobs of a kind have not been listed yet in a scope."""
        if all(each.reflector.synced.is_set() for each in self.of_kind(key) if each.scope == scope):
            return None
        return Unavailable(
            f"The {key.replace('_', ' ')}s of {scope or 'the cluster'} are still being listed."
        )

    def listed(self, key: str) -> bool:
        """Whether all jobs of a kind have been listed once."""
        found = self.of_kind(key)
        return bool(found) and all(each.reflector.synced.is_set() for each in found)

    def as_of(self, key: str, scope: str) -> datetime | None:
        """The moment that what is known of the jobs of a kind in a scope shows."""
        times = [each.reflector.as_of for each in self.of_kind(key) if each.scope == scope]
        known = [time for time in times if time is not None]
        return min(known) if known and len(known) == len(times) else None

    # Jobs

    def places(self, key: str) -> list[Place]:
        """The jobs of a kind, without those that are parts of a job of another kind."""
        workload = next(each for each in WORKLOADS if each.key == key)
        return [place for place in self._objects if place[1] == workload.kind and self._is_job(place)]

    def job(self, place: Place) -> Job | None:
        """The job at a place; None where there is none (any more)."""
        obj = self._objects.get(place)
        if obj is None or not self._is_job(place):
            return None
        known = self._jobs.get(place)
        if known is None:
            known = self._jobs[place] = self._converted(place, obj)
        return known

    def take_changed(self, key: str) -> list[Place]:
        """The jobs of a kind that have changed since the last time; `put_back` those not dealt with."""
        for place in [each for each in self._podless if self._all_known(each)]:
            self._podless.discard(place)
            self._tell(place)
        found = list(self._changed[key])
        self._changed[key].clear()
        return found

    def put_back(self, key: str, places: Iterable[Place]) -> None:
        """Report these once more."""
        self._changed[key].update(dict.fromkeys(places))

    def object_at(self, place: Place) -> Obj | None:
        """The object at a place."""
        found = self._objects.get(place)
        return found if isinstance(found, Mapping) else None

    def pods(self) -> dict[str, Pod]:
        """Every pod of a job, by `namespace/name`."""
        found = [each.reflector.objects for each in self.of_pods()]
        return {key: pod for objects in found for key, pod in objects.items()}

    def pods_of(self, place: Place) -> list[Pod]:
        """The pods of an object and of all that it controls; not those of an earlier one of its name."""
        found: list[Pod] = []
        uid = str(at(self._objects.get(place) or {}, "metadata", "uid") or "")
        for part in self._parts.get(place, ()):
            obj = self._objects.get(part)
            owner = obj.owner if isinstance(obj, Pod) else owner_of(obj or {})
            if owner is not None and owner.is_other_than(place[1], uid):
                continue
            if isinstance(obj, Pod):
                found.append(obj)
            else:
                found += self.pods_of(part)
        return found

    def part(self, place: Place, kind: str) -> Obj | None:
        """The first object of a kind that another one controls, e.g. the Workload of a job."""
        found = next((part for part in self._parts.get(place, ()) if part[1] == kind), None)
        return self.object_at(found) if found else None

    def _converted(self, place: Place, obj: Obj) -> Job:
        pods = self.pods_of(place)
        uid = str(at(obj, "metadata", "uid") or "")
        index, workload = self.events.readable(place[0]), self.part(place, "Workload")
        found = Found(
            pods=pods,
            job_set=self.part(place, "JobSet"),
            runtime=self._runtime(place, obj),
            waiting=waits_for(
                obj, pods, workload, self.part(place, "PodGroup"),
                wait_events(index, place, pods) if index is not None else (),
            ),
            seen=self._failed.of(place, pods, time_of(at(obj, "metadata", "creationTimestamp"))),
            events=index,
            workload=workload,
            nodes=self._nodes_of(uid, pods),
            started=self._seen.started.get(uid),
        )  # fmt: skip
        job = job_of(obj, _BY_KIND[place[1]], self._context, self._connection.login.cluster, found)
        if job.start_time is not None and not job.state.terminal:
            self._seen.started[uid] = job.start_time
        if not self._all_known(place):
            self._podless.add(place)
        if self._pods_known(place):
            return job
        errors = [str(each.reflector.error) for each in self._of_pods(place) if each.reflector.error]
        why = errors[0] if errors else "they have not been listed yet."
        said = f"{job.reason.rstrip('.')}. Its pods are not known: {why}"
        return replace(job, reason=said.removeprefix(". "))

    def _nodes_of(self, uid: str, pods: Sequence[Pod]) -> tuple[NodeShare, ...]:
        self._new_nodes |= {pod.node for pod in pods if pod.node} - self.nodes.machines.keys()
        found = node_shares(pods, self.nodes.machines)
        if found:
            self._seen.nodes[uid] = found
        # Of pods that have ended both may be gone, the pods and the nodes.
        return found or self._seen.nodes.get(uid, ())

    async def learn_nodes(self) -> None:
        """Read the nodes of pods that are not known yet; their jobs have changed then."""
        await self._learn({pod.node for pod in self.pods().values()})

    def learn_nodes_later(self) -> None:
        """Read in the background those that were seen when jobs were converted."""
        if not self._new_nodes or (self._learning is not None and not self._learning.done()):
            return
        names, self._new_nodes = self._new_nodes, set()
        self._learning = asyncio.create_task(self._learn(names), name="read nodes")

    async def _learn(self, names: set[str]) -> None:
        learned = await self.nodes.learn(names)
        if not self.nodes.denied:
            self._new_nodes |= names - self.nodes.machines.keys()
        for each in self.of_pods() if learned else ():
            for key, pod in each.reflector.objects.items():
                if pod.node in learned:
                    self._tell(_place(PODS, key))

    def _pods_known(self, place: Place) -> bool:
        """Whether the pods of a job have been listed, and what lies between them and the job."""
        return all(each.reflector.synced.is_set() for each in self._of_pods(place))

    def _all_known(self, place: Place) -> bool:
        """Whether `_pods_known`, and the Events of the job have been listed or can't be."""
        return self._pods_known(place) and self.events.settled(place[0])

    def _of_pods(self, place: Place) -> list[Watched]:
        found = self.of_pods()
        if place[1] in {"TrainJob", "JobSet"}:
            found += [*self.of_kind("batch_job"), *self.of_kind("job_set")]
        return [each for each in found if each.scope in {EVERYWHERE, place[0]}]

    def _runtime(self, place: Place, obj: Obj) -> Obj | None:
        named = fields(obj, "spec", "runtimeRef")
        kind = str(named.get("kind") or "ClusterTrainingRuntime")
        namespace = "" if kind == "ClusterTrainingRuntime" else place[0]
        return self.object_at((namespace, kind, str(named.get("name") or ""))) if named else None

    def _is_job(self, place: Place) -> bool:
        """Whether it is a job of its own: what a known job controls is a part of that."""
        owner = self._owners.get(place)
        return owner is None or owner[1] not in _BY_KIND

    # Changes

    def _take(self, of: ApiType, reflector: Reflector[Any], key: str) -> None:
        """Take over an object, or its end, from a reflector."""
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
            self._tell(before)
        self._tell(place)
        if of.kind in RUNTIME_KINDS:
            for job in self.places("train_job") if "train_job" in self._changed else ():
                self._tell(job)

    def _top(self, place: Place) -> Place:
        """The job above a part: parts of it may be replaced with their pods."""
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

    def _tell_event(self, namespace: str, event: ClusterEvent) -> None:
        """Note that an Event tells something of a job, of one of its pods, or of a node that they were on."""
        if event.kind == "Node":
            for pod in self.events.index.assigned(event.about):
                self._tell_pod(*pod)
        elif event.kind == "Pod":
            self._tell_pod(namespace, event.about)
        else:
            self._tell((namespace, event.kind, event.about))

    def _tell_pod(self, namespace: str, name: str) -> None:
        """Note that the job of a pod has changed, which may be gone: then the name tells whose it was."""
        place = (namespace, "Pod", name)
        if place in self._objects:
            self._tell(place)
            return
        stem = name
        while "-" in stem:
            stem = stem.rpartition("-")[0]
            for kind in _BY_KIND:
                if (namespace, kind, stem) in self._objects:
                    self._tell((namespace, kind, stem))

    def _tell(self, place: Place | None) -> None:
        """Note that the jobs at and above a place have changed."""
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
    """An object without what only the server needs; items of a list lack their type."""
    metadata = {k: v for k, v in fields(obj, "metadata").items() if k not in _DROPPED}
    notes = fields(metadata, "annotations")
    if _APPLIED in notes:
        metadata["annotations"] = {k: v for k, v in notes.items() if k != _APPLIED}
    return {**obj, "apiVersion": of.api_version, "kind": of.kind, "metadata": metadata}
