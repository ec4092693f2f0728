"""Jobs of one kind in a cluster. Lists come from a watch; changes are calls that are checked first."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tui.backends.errors import BackendError, FailedPrecondition, InvalidRequest, NotFound, Unavailable
from tui.backends.interface import EVERY_REGION, JobPage, JobService, LaunchRequest
from tui.backends.kubernetes.cluster import ConnectedCluster
from tui.backends.kubernetes.connection import CHANGE
from tui.backends.kubernetes.discovery import ApiType
from tui.backends.kubernetes.jobs.creation import JobCreation
from tui.backends.kubernetes.jobs.single import SingleReader
from tui.backends.kubernetes.watch.cluster_watch import EVERYWHERE, Place
from tui.domain.core.job import Job
from tui.domain.kubernetes.changes import scale_patch, scale_problem, suspend_patch
from tui.domain.kubernetes.conditions import queue_of, status_of
from tui.domain.kubernetes.names import JobName, parse_name
from tui.domain.kubernetes.workloads import WORKLOADS, at

FIRST_LIST_SECONDS = 30.0
"""Maximum wait for the first list of the kind, in seconds."""
PARTS_SECONDS = 5.0
"""Maximum wait for pods and other parts once the jobs are listed (s). A job without parts is marked."""
AT_ONCE = 20
"""Number of jobs converted before the event loop runs: about 10 ms even if every job has failed."""
GONE_SECONDS = 60.0
"""Maximum wait for the end of a deleted job, in seconds. Its pods have a grace period."""


class KubernetesJobs(JobService):
    """The jobs of one kind."""

    def __init__(self, cluster: ConnectedCluster, kind: str) -> None:
        self._cluster = cluster
        self._workload = next(workload for workload in WORKLOADS if workload.key == kind)
        self._single = SingleReader(cluster, self._workload)
        self._creation = JobCreation(cluster, self._workload, self._single)
        self._seen: set[str] = set()
        """Namespaces that have had jobs of this kind."""

    def offers(self, operation: str, *, anybody: bool = False) -> bool:
        needed = {"create": "create", "delete": "delete"}.get(operation, "patch")
        if operation == "scale" and not scale_patch(self._workload.key, 1):
            return False
        of = self._cluster.served.jobs[self._workload.key][0]
        home = self._cluster.info.regions[0]
        may = anybody or not self._cluster.permissions.denied(needed, of, home)
        return super().offers(operation) and may

    def owns(self, name: str) -> bool:
        name_parts = parse_name(name)
        own = (self._workload.plural, self._cluster.connection.login.cluster)
        return name_parts is not None and (name_parts.plural, name_parts.cluster) == own

    # Read

    async def list_all(self, *, filter: str = "") -> AsyncGenerator[JobPage, None]:
        watch, key = self._cluster.watch, self._workload.key
        known = watch.listed(key)
        watch.start()
        await asyncio.gather(self._listed(), watch.namespaces.refresh())
        if known:
            # Without a new list, only a request shows whether the cluster answers.
            await watch.probe.ask()
        watch.take_changed(key)
        await self._convert(watch.places(key))
        for page in self._pages(watch.places(key), whole=True):
            yield page

    async def changes(self) -> AsyncGenerator[JobPage, None]:
        watch, key = self._cluster.watch, self._workload.key
        watch.start()
        watch.learn_nodes_later()
        await watch.probe.repeat()
        await watch.namespaces.repeat()
        places = watch.take_changed(key)
        done = False
        try:
            await self._convert(places)
            for page in self._pages(places, whole=False):
                yield page
            done = True
        finally:
            if not done:
                watch.put_back(key, places)

    async def _convert(self, places: Iterable[Place]) -> None:
        """Convert jobs in small batches so that the event loop can handle key presses."""
        for number, place in enumerate(places, 1):
            self._cluster.watch.job(place)
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _listed(self) -> None:
        """Wait until each scope has been listed once, or has failed."""
        watched = self._cluster.watch.of_kind(self._workload.key)
        end = asyncio.get_running_loop().time() + FIRST_LIST_SECONDS
        for watched_type in watched:
            left = end - asyncio.get_running_loop().time()
            await watched_type.reflector.settled(max(0.0, left))
        # All scopes are listed concurrently. Jobs are shown before a long list of pods ends.
        end = min(end, asyncio.get_running_loop().time() + PARTS_SECONDS)
        parts = [watched_part.reflector for watched_part in self._cluster.watch.of_parts()]
        for reflector in [*parts, *self._cluster.watch.events.reflectors.values()]:
            left = end - asyncio.get_running_loop().time()
            await reflector.settled(max(0.0, left))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(end):
                await self._cluster.watch.learn_nodes()

    def _pages(self, places: Iterable[Place], *, whole: bool) -> list[JobPage]:
        """Return the jobs at these locations, a page per namespace; an unreadable scope yields an error."""
        watch, key = self._cluster.watch, self._workload.key
        failing = {scope: watch.error(key, scope) or watch.unlisted(key, scope) for scope in watch.scopes}
        jobs: dict[str, list[Job]] = {}
        gone: dict[str, list[str]] = {}
        for place in places:
            if failing.get(place[0], failing.get(EVERYWHERE)) is not None:
                watch.put_back(key, [place])
                continue
            job = watch.job(place)
            if job is not None:
                jobs.setdefault(place[0], []).append(job)
            elif not whole:
                gone.setdefault(place[0], []).append(str(self._name(place)))
        self._seen |= jobs.keys()
        pages = []
        for scope, error in failing.items():
            for namespace in self._namespaces(scope):
                if error is not None:
                    pages.append(JobPage(namespace, error=error))
                    continue
                shown = sorted(jobs.get(namespace, ()), key=lambda job: -(job.created or 0))
                read_at = watch.as_of(key, scope) or datetime.now(UTC)
                went = tuple(gone.get(namespace, ()))
                soft = watch.probe.error or watch.namespaces.errors.get(namespace)
                soft = soft or watch.unreadable(key, namespace)
                pages.append(JobPage(namespace, tuple(shown), soft, read_at, whole=whole, gone=went))
            if whole and scope == EVERYWHERE and pages[-1].error is None:
                pages.append(JobPage(EVERY_REGION))
        return pages

    def _namespaces(self, scope: str) -> Sequence[str]:
        """Return the namespaces of a scope that get pages; for the cluster, the namespaces with jobs."""
        return [scope] if scope != EVERYWHERE else sorted(self._seen) or self._cluster.info.regions[:1]

    async def get(self, name: str) -> Job:
        parts = self._parsed(name)
        place = self._place(parts)
        if self._cluster.watch.live(self._workload.key, parts.namespace):
            job = self._cluster.watch.job(place)
            if job is None:
                raise NotFound(f"The {self._workload.kind} {parts.name} does not exist in {parts.namespace}.")
            workload = self._cluster.watch.part(place, "Workload")
            return await self._single.positions.with_position(parts, job, workload)
        return await self._single.job(parts)

    async def spec(self, name: str) -> dict[str, Any]:
        _, obj = await self._single.object(self._parsed(name))
        metadata = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
        return {**obj, "metadata": metadata}

    async def find(self, reference: str) -> list[Job]:
        named = parse_name(reference)
        if named is not None:
            return [await self._single.job(named)] if self.owns(reference) else []
        return await self._named(reference)

    async def _named(self, name: str) -> list[Job]:
        if parse_name(str(JobName("c", "n", self._workload.plural, name))) is None:
            return []
        jobs_by_name: dict[str, Job] = {}
        lost: BackendError | None = None
        for of in self._cluster.served.jobs[self._workload.key]:
            for scope in self._cluster.watch.scopes:
                try:
                    jobs = await self._in_scope(of, scope, name)
                except BackendError as error:
                    lost = lost or error
                    continue
                jobs_by_name |= {job.name: job for job in jobs}
        if lost is not None and not jobs_by_name:
            raise lost
        return list(jobs_by_name.values())

    async def _in_scope(self, of: ApiType, scope: str, name: str) -> list[Job]:
        params = {"fieldSelector": f"metadata.name={name}"}
        items = await self._cluster.connection.items(
            of.path(scope), action=f"look for the {of.resource} {name}", params=params
        )
        jobs = []
        for item in items:
            obj = {"apiVersion": of.api_version, "kind": of.kind, **item}
            owners = at(obj, "metadata", "ownerReferences") or ()
            if any(owner.get("controller") and owner.get("kind") in _KINDS for owner in owners):
                continue
            namespace = str(at(obj, "metadata", "namespace"))
            place = JobName(self._cluster.connection.login.cluster, namespace, of.plural, name)
            jobs.append(await self._single.job(place, obj))
        return jobs

    # Change

    async def create(self, request: LaunchRequest) -> Job:
        return await self._creation.create(request)

    async def launched(self, request: LaunchRequest) -> Job | None:
        return await self._creation.launched(request)

    async def cancel(self, name: str) -> None:
        """Suspend the job. Its pods end, and its object stays."""
        await self.suspend(name)

    async def suspend(self, name: str) -> None:
        await self._suspend(name, True)

    async def resume(self, name: str) -> None:
        await self._suspend(name, False)

    async def scale(self, name: str, replicas: int) -> None:
        parts = self._parsed(name)
        of, obj = await self._object_to("patch", parts)
        problem = scale_problem(obj, replicas)
        if problem:
            raise FailedPrecondition(f"Can't scale {parts.name} to {replicas} workers: {problem}")
        patch = scale_patch(self._workload.key, replicas, obj)
        if patch is None:
            raise FailedPrecondition(f"{parts.name} has no workers that can be scaled.")
        await self._patch(of, parts, patch, f"scale the {of.resource} {parts.name}")

    async def delete(self, name: str) -> None:
        """Delete the job with its pods (propagation Foreground) and wait until they are deleted."""
        parts = self._parsed(name)
        of, obj = await self._object_to("delete", parts)
        uid = at(obj, "metadata", "uid")
        options = {
            "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground",
            "preconditions": {"uid": uid},
        }  # fmt: skip
        action = f"delete the {of.resource} {parts.name}"
        path = of.path(parts.namespace, parts.name)
        try:
            # Safe to send again after a lost reply: the precondition protects a new job of the same name.
            await self._cluster.connection.request(
                "DELETE", path, action=action, body=options, within=CHANGE, repeat=True
            )
        except NotFound:
            return
        await self._gone(path, str(uid), action)

    async def _gone(self, path: str, uid: str, action: str) -> None:
        end = asyncio.get_running_loop().time() + GONE_SECONDS
        wait = 0.1
        while True:
            try:
                now = await self._cluster.connection.request("GET", path, action=action)
            except NotFound:
                return
            if at(now, "metadata", "uid") != uid:
                return
            if asyncio.get_running_loop().time() > end:
                left = ", ".join(at(now, "metadata", "finalizers") or ()) or "its pods"
                raise Unavailable(
                    f"Can't {action}: the job still exists after {GONE_SECONDS:.0f} s.",
                    fix=f"The deletion is waiting for {left}; check the pods and their nodes.",
                )
            await asyncio.sleep(wait)
            wait = min(2.0, wait * 1.5)

    async def _suspend(self, name: str, suspend: bool) -> None:
        parts = self._parsed(name)
        of, obj = await self._object_to("patch", parts)
        action = f"{'suspend' if suspend else 'resume'} the {of.resource} {parts.name}"
        state = status_of(obj, self._workload.key).state
        if state.terminal:
            raise FailedPrecondition(f"Can't {action}: the job {state.phrase} already.")
        if queue_of(obj) and await self._deactivate(parts, obj, suspend, action):
            return
        await self._patch(of, parts, suspend_patch(obj, suspend), action)

    async def _deactivate(self, name: JobName, obj: Mapping[str, Any], suspend: bool, action: str) -> bool:
        """Suspend through Kueue, which readmits a job suspended otherwise. Return False without Kueue."""
        workload = await self._single.queued(name, obj)
        of = self._cluster.served.part("Workload")
        if workload is None or of is None:
            return False
        path = of.path(name.namespace, str(at(workload, "metadata", "name")))
        await self._cluster.permissions.require("patch", of, name.namespace)
        await self._cluster.connection.patch(path, {"spec": {"active": not suspend}}, action=action)
        return True

    async def _object_to(self, verb: str, name: JobName) -> tuple[ApiType, Mapping[str, Any]]:
        """Return the type and object of a job. Raises if the login may not change the job."""
        of, obj = await self._single.object(name)
        await self._cluster.permissions.require(verb, of, name.namespace)
        return of, obj

    async def _patch(self, of: ApiType, name: JobName, patch: Mapping[str, Any], action: str) -> None:
        await self._cluster.connection.patch(of.path(name.namespace, name.name), patch, action=action)

    # Names

    def _parsed(self, name: str) -> JobName:
        parts = parse_name(name)
        if parts is None or not self.owns(name):
            cluster = self._cluster.connection.login.cluster
            raise InvalidRequest(
                f"{name!r} must be the full name of a {self._workload.kind} in this cluster.",
                fix=f"Write clusters/{cluster}/namespaces/NAMESPACE/{self._workload.plural}/NAME.",
            )
        return parts

    def _name(self, place: Place) -> JobName:
        return JobName(self._cluster.connection.login.cluster, place[0], self._workload.plural, place[2])

    def _place(self, name: JobName) -> Place:
        return name.namespace, self._workload.kind, name.name


_KINDS = frozenset(workload.kind for workload in WORKLOADS)
