"""Checks before a launch in a cluster: served types, permissions, existing objects, free capacity.

A check that is refused or fails is `unknown` with the reason. A `PROBLEM` always comes from an answer of the
cluster.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

from tui.backends.concurrent_checks import Probe, run_probes
from tui.backends.errors import InvalidRequest, NotFound, PermissionDenied, QuotaExceeded
from tui.backends.interface import PreflightService
from tui.backends.kubernetes.cluster import ConnectedCluster
from tui.backends.kubernetes.discovery import NAMESPACES, ApiType, type_of
from tui.backends.kubernetes.errors import AlreadyExists
from tui.backends.kubernetes.jobs.creation import MANAGER, apply
from tui.domain.document.document_edit import Edit
from tui.domain.kubernetes.manifest import BODY, MANIFEST, OBJECTS
from tui.domain.kubernetes.objects import containers, job_in, objects_of
from tui.domain.kubernetes.preflight.changes import change_lines, in_words
from tui.domain.kubernetes.preflight.fit import fit, over_quota
from tui.domain.kubernetes.preflight.references import Reference, references, runtime_of
from tui.domain.kubernetes.workloads import QUEUE, at, fields, groups
from tui.domain.vertex.preflight import Check, CheckStatus, RunningJobs, ok, unknown
from tui.emulator.client import container_torch_missing

_KUEUE = "/apis/kueue.x-k8s.io"
_VERSIONS = ("v1beta2", "v1beta1")
_NAMED = {
    "PersistentVolumeClaim": "claim",
    "ConfigMap": "configmap",
    "Secret": "secret",
    "ServiceAccount": "account",
}


class ClusterPreflight(PreflightService):
    """The checks of one cluster."""

    def __init__(self, cluster: ConnectedCluster) -> None:
        self._cluster = cluster
        self._connection = cluster.connection

    async def run(
        self, region: str, job: Mapping[str, Any], running: RunningJobs
    ) -> AsyncGenerator[Check, None]:
        launch = _Launch(region or self._cluster.info.regions[0], job)
        async with aclosing(run_probes(self._probes(launch))) as checks:
            async for check in checks:
                yield check

    def _probes(self, launch: _Launch) -> list[tuple[str, Probe]]:
        if not launch.job:
            return []
        probes: list[tuple[str, Probe]] = [
            ("served permissions dry-run", partial(self._created, launch)),
            ("namespace", partial(self._namespace, launch)),
            ("name", partial(self._name, launch)),
            ("nodes", partial(self._nodes, launch)),
        ]
        queue = fields(launch.job, "metadata", "labels").get(QUEUE)
        if queue:
            probes.append(("queue", partial(self._queue, launch, str(queue))))
        for obj in references(launch.objects):
            key = f"{_NAMED[obj.kind]}:{obj.name}"
            probes.append((key, partial(self._reference, launch.namespace, obj, key)))
        runtime = runtime_of(launch.objects)
        if runtime is not None:
            probes.append((f"runtime:{runtime[1]}", partial(self._runtime, launch.namespace, *runtime)))
        for obj in launch.others:
            name = str(at(obj, "metadata", "name"))
            probes.append((f"beside:{name}", partial(self._other, launch.namespace, obj, name)))
        return probes

    # What is created

    async def _created(self, launch: _Launch) -> list[Check]:
        """Check that the kind is served, the login may create it, and the server accepts the objects."""
        try:
            of = await type_of(self._connection, launch.job)
        except NotFound as error:
            return _problem("served", error.message, error.fix)
        checks = [ok("served", f"{of.resource} {of.version}")]
        refused = await self._refused(of, launch)
        if refused is not None:
            return [*checks, refused]
        checks.append(ok("permissions", f"may create {of.plural} in {launch.namespace}"))
        return [*checks, await self._dry_run(of, launch)]

    async def _refused(self, of: ApiType, launch: _Launch) -> Check | None:
        """Return the check of the first object that may not be created, or `None` if all may be created."""
        try:
            await self._cluster.permissions.require("create", of, launch.namespace)
            for obj in launch.others:
                other = await type_of(self._connection, obj)
                await self._cluster.permissions.require(
                    "patch", other, launch.namespace if other.namespaced else ""
                )
        except (PermissionDenied, NotFound) as error:
            return Check("permissions", CheckStatus.PROBLEM, error.message, error.fix)
        return None

    async def _dry_run(self, of: ApiType, launch: _Launch) -> Check:
        """Check the job against the server's schema, defaults and admission webhooks."""
        body = {**launch.job, "metadata": {**fields(launch.job, "metadata"), "namespace": launch.namespace}}
        params = {"dryRun": "All", "fieldManager": MANAGER, "fieldValidation": "Strict"}
        action = f"create the {of.kind} {launch.name} in a dry run"
        try:
            for obj in launch.others:
                await self._apply_on_trial(obj, launch.namespace)
            await self._connection.request(
                "POST", of.path(launch.namespace), action=action, body=body, params=params, repeat=True
            )
        except AlreadyExists:
            return unknown("dry-run", "the name is taken, so the server did not check the rest")
        except (InvalidRequest, NotFound, QuotaExceeded) as error:
            created = launch.creates(error.message)
            if created:
                why = f"the server can check the job once the launch has created {created}"
                return unknown("dry-run", why)
            if isinstance(error, NotFound):
                raise
            fields_of = error.fields.items() if isinstance(error, InvalidRequest) else ()
            words = "; ".join(f"{name}: {text}" for name, text in fields_of) or error.message
            fix = error.fix or "Correct the field of the manifest that the server names."
            return Check("dry-run", CheckStatus.PROBLEM, f"the server refuses the job: {words}", fix)
        return ok("dry-run", "the server accepts the job (dryRun=All)")

    async def _apply_on_trial(self, obj: Mapping[str, Any], namespace: str) -> None:
        of = await type_of(self._connection, obj)
        name = str(at(obj, "metadata", "name") or "")
        where = namespace if of.namespaced else ""
        action = f"apply the {of.kind} {name} in a dry run"
        await apply(self._connection, of.path(where, name), obj, action, dryRun="All")

    # Existing objects

    async def _namespace(self, launch: _Launch) -> list[Check]:
        namespace = launch.namespace
        obj = await self._find(NAMESPACES.path("", namespace), f"look for the namespace {namespace}")
        if obj is None and launch.has("Namespace", namespace):
            return [ok("namespace", f"{namespace} is created")]
        if obj is None:
            fix = f"`kubectl create namespace {namespace}`, or launch in another namespace (--region)."
            return _problem("namespace", f"the namespace {namespace} does not exist", fix)
        if at(obj, "status", "phase") == "Terminating":
            return _problem("namespace", f"the namespace {namespace} is being deleted")
        return [ok("namespace", namespace)]

    async def _name(self, launch: _Launch) -> list[Check]:
        """Check that the name is free. If a job already has the name, list the differences."""
        of = await type_of(self._connection, launch.job)
        path = of.path(launch.namespace, launch.name)
        obj = await self._find(path, f"look for the {of.kind} {launch.name}")
        if obj is None:
            return [ok("name", f"{launch.name} is free")]
        names = await self._names(of, launch.namespace)
        free = next(
            f"{launch.name}-{n}" for n in range(2, len(names) + 3) if f"{launch.name}-{n}" not in names
        )
        lines = change_lines(obj, launch.job)
        differs = f"it differs in {in_words(lines)}" if lines else "it is the same job"
        sentence = f"the {of.kind} {launch.name} exists already; {differs}"
        fix = f"Launch the job as {free}, or delete the other job."
        return _problem("name", sentence, fix, edits=(Edit(("displayName",), free),))

    async def _names(self, of: ApiType, namespace: str) -> set[str]:
        objects = await self._connection.items(of.path(namespace), action=f"list the {of.plural}")
        return {str(at(obj, "metadata", "name")) for obj in objects}

    async def _other(self, namespace: str, obj: Mapping[str, Any], name: str) -> list[Check]:
        """Check the changes that the launch makes to an object other than the job."""
        of = await type_of(self._connection, obj)
        key, where = f"beside:{name}", namespace if of.namespaced else ""
        present = await self._find(of.path(where, name), f"look for the {of.kind} {name}")
        if present is None:
            return [ok(key, f"the {of.kind} {name} is created")]
        lines = change_lines(present, obj)
        if not lines:
            return [ok(key, f"the {of.kind} {name} exists and stays unchanged")]
        sentence = f"the {of.kind} {name} exists, and the launch changes it: {in_words(lines)}"
        return _problem(
            key, sentence, "Rename the object if other jobs need the existing object.", stops=False
        )

    async def _reference(self, namespace: str, reference: Reference, key: str) -> list[Check]:
        kind, name = reference.kind, reference.name
        path = f"/api/v1/namespaces/{namespace}/{reference.plural}/{name}"
        obj = await self._find(path, f"look for the {kind} {name}")
        if obj is None:
            sentence = f"the pods need the {kind} {name}, which does not exist in {namespace}"
            return _problem(key, sentence, "Create the object, or add it to the manifest.")
        if kind == "PersistentVolumeClaim" and at(obj, "status", "phase") == "Lost":
            return _problem(key, f"the volume of the claim {name} is lost")
        return [ok(key, f"the {kind} {name} exists")]

    async def _runtime(self, namespace: str, kind: str, name: str) -> list[Check]:
        of = self._cluster.served.part(kind)
        key = f"runtime:{name}"
        if of is None:
            return _problem(key, f"the cluster serves no {kind}", "Install Kubeflow Trainer.")
        where = namespace if of.namespaced else ""
        if await self._find(of.path(where, name), f"look for the {kind} {name}") is None:
            names = sorted(await self._names(of, where))
            fix = f"Use one of {', '.join(names)}." if names else f"Create a {kind}."
            return _problem(key, f"the {kind} {name} does not exist", fix)
        return [ok(key, f"the {kind} {name} exists")]

    # Capacity

    async def _nodes(self, launch: _Launch) -> list[Check]:
        if self._connection.local:
            for _, _, container in containers(launch.job):
                command = [str(word) for word in container.get("command") or ()]
                missing = container_torch_missing(str(container.get("image") or ""), command)
                if missing is not None:
                    return _problem("nodes", missing.sentence, missing.fix)
        nodes = await self._connection.items("/api/v1/nodes", action="read the nodes")
        fits = [fit(group, nodes) for group in groups(launch.job)]
        short = [group_fit for group_fit in fits if group_fit.room < group_fit.pods]
        if not short:
            return [ok("nodes", "; ".join(group_fit.sentence for group_fit in fits))]
        fix = "An autoscaled pool may add matching nodes; otherwise the pods wait."
        if self._connection.local:
            fix = "Request nodes that this cluster has; its configuration names the node pools."
        words = "; ".join(group_fit.sentence for group_fit in short)
        return _problem("nodes", words, fix, stops=self._connection.local)

    async def _queue(self, launch: _Launch, name: str) -> list[Check]:
        where = f"namespaces/{launch.namespace}/localqueues"
        queue = await self._kueue(f"{where}/{name}", f"look for the LocalQueue {name}")
        if queue is None and launch.has("LocalQueue", name):
            return [ok("queue", f"the LocalQueue {name} is created")]
        if queue is None:
            return await self._no_queue(where, launch.namespace, name)
        above = str(at(queue, "spec", "clusterQueue") or "")
        cluster_queue = await self._kueue(f"clusterqueues/{above}", f"look for the ClusterQueue {above}")
        if cluster_queue is None:
            sentence = f"the ClusterQueue {above} of the LocalQueue {name} does not exist"
            return _problem("queue", sentence, "Use another queue.")
        stopped = fields(queue, "spec").get("stopPolicy") or fields(cluster_queue, "spec").get("stopPolicy")
        if stopped not in (None, "None"):
            return _problem("queue", f"the queue {name} is stopped ({stopped})", stops=False)
        over = over_quota(groups(launch.job), cluster_queue)
        if over:
            sentence = f"the queue {name} never admits the job: {'; '.join(over)} (ClusterQueue {above})"
            return _problem("queue", sentence, "Request less, or use another queue.")
        waiting = at(queue, "status", "pendingWorkloads") or 0
        return [ok("queue", f"{name} of the ClusterQueue {above}, {waiting} waiting")]

    async def _no_queue(self, where: str, namespace: str, name: str) -> list[Check]:
        queues = await self._kueue(where, "list the LocalQueues")
        if queues is None:
            sentence = f"the cluster has no Kueue: the queue {name} is ignored, and the job starts at once"
            return _problem("queue", sentence, f"Remove the label {QUEUE}.", stops=False)
        names = sorted(str(at(queue, "metadata", "name")) for queue in queues.get("items") or ())
        fix = f"Use one of {', '.join(names)}." if names else "Ask for a LocalQueue in this namespace."
        return _problem("queue", f"the LocalQueue {name} does not exist in {namespace}", fix)

    async def _kueue(self, path: str, action: str) -> Any:
        """Return an object or a list of Kueue's API, or `None` if no version of the API serves it."""
        for version in _VERSIONS:
            reply = await self._find(f"{_KUEUE}/{version}/{path}", action)
            if reply is not None:
                return reply
        return None

    async def _find(self, path: str, action: str) -> Any:
        """Return the object at a path, or `None` if it does not exist."""
        try:
            return await self._connection.request("GET", path, action=action)
        except NotFound:
            return None


def _problem(key: str, sentence: str, fix: str = "", **details: Any) -> list[Check]:
    return [Check(key, CheckStatus.PROBLEM, sentence, fix, **details)]


class _Launch:
    """The objects of a launch, and their namespace."""

    def __init__(self, namespace: str, job: Mapping[str, Any]) -> None:
        resource = MANIFEST.resource(job) if fields(job, BODY).get(OBJECTS) else {}
        self.namespace = namespace
        self.objects: Sequence[Any] = objects_of(resource) or []
        self.job = job_in(resource) if resource else {}
        self.others = [obj for obj in self.objects if obj is not self.job and obj != self.job]
        self.name = str(at(self.job, "metadata", "name") or "")

    def has(self, kind: str, name: str) -> bool:
        """Return whether the launch creates an object other than the job."""
        named = ((fields(obj).get("kind"), at(obj, "metadata", "name")) for obj in self.others)
        return (kind, name) in named

    def creates(self, message: str) -> str:
        """Name the object that a message calls missing if the launch creates it, else ""."""
        for obj in self.others:
            name = at(obj, "metadata", "name")
            if f'"{name}" not found' in message:
                return f"the {fields(obj).get('kind')} {name}"
        return ""
