"""Creates exactly one job, found by label after a lost reply. Other objects of the manifest come first."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tui.backends.errors import BackendError, InvalidRequest, Unavailable
from tui.backends.interface import LaunchRequest
from tui.backends.kubernetes.cluster import ConnectedCluster
from tui.backends.kubernetes.connection import CREATE, ClusterConnection
from tui.backends.kubernetes.discovery import type_of
from tui.backends.kubernetes.errors import AlreadyExists
from tui.backends.kubernetes.jobs.single import SingleReader
from tui.backends.lost_create import LOOK_AGAIN, created_job
from tui.domain.core.job import LAUNCH_LABEL, Job
from tui.domain.kubernetes.names import JobName
from tui.domain.kubernetes.workloads import WorkloadKind, at, fields, workload_of

APPLY = "application/apply-patch+yaml"
MANAGER = "vxtui"


class JobCreation:
    """Creates jobs of one kind."""

    def __init__(self, cluster: ConnectedCluster, workload: WorkloadKind, single: SingleReader) -> None:
        self._cluster = cluster
        self._workload = workload
        self._single = single

    async def create(self, request: LaunchRequest) -> Job:
        """Send one create. After a lost reply, look for the job by its label."""
        region = request.region or self._cluster.info.regions[0]
        request = replace(request, region=region, mark=request.mark or secrets.token_hex(8))
        job, others = _split(request.resource)
        of = await type_of(self._cluster.connection, job)
        await self._cluster.permissions.require("create", of, region)
        for other in others:
            await self._apply(other, region)
        body = _marked(job, region, request.mark)
        named = at(body, "metadata", "name") or at(body, "metadata", "generateName")
        action = f"create the {self._workload.kind} {named} in {region}"
        try:
            request.on_send()
            reply = await self._cluster.connection.request(
                "POST", of.path(region), action=action, body=body, within=CREATE
            )
        except AlreadyExists as error:
            # An earlier create may have succeeded although its reply was lost.
            job_made = await self.launched(request)
            if job_made is not None:
                return job_made
            raise AlreadyExists(error.message, fix="Use another name, or delete the other job.") from error
        except BackendError as error:
            # These errors leave open whether the server acted; any other error is a refusal.
            if type(error) not in (Unavailable, BackendError):
                raise
            return await created_job(request, error, self.launched, "cluster", waits=LOOK_AGAIN)
        obj = {"apiVersion": of.api_version, "kind": of.kind, **reply}
        return await self._single.job(self._name(obj), obj)

    async def launched(self, request: LaunchRequest) -> Job | None:
        """Return the job with the request's label."""
        for of in self._cluster.served.jobs[self._workload.key]:
            items = await self._cluster.connection.items(
                of.path(request.region),
                action=f"look for the {of.resource} of a launch",
                params={"labelSelector": request.label},
            )
            for item in items:
                obj = {"apiVersion": of.api_version, "kind": of.kind, **item}
                return await self._single.job(self._name(obj), obj)
        return None

    async def _apply(self, obj: Mapping[str, Any], namespace: str) -> None:
        """Create or update an object of the manifest other than the job (server-side apply)."""
        of = await type_of(self._cluster.connection, obj)
        name = str(at(obj, "metadata", "name") or "")
        if not name:
            raise InvalidRequest(
                f"A {of.kind} of the manifest has no name.", fields={"metadata.name": "missing"}
            )
        where = str(at(obj, "metadata", "namespace") or namespace) if of.namespaced else ""
        await self._cluster.permissions.require("patch", of, where)
        await apply(self._cluster.connection, of.path(where, name), obj, f"apply the {of.kind} {name}")

    def _name(self, obj: Mapping[str, Any]) -> JobName:
        metadata = fields(obj, "metadata")
        cluster = self._cluster.connection.login.cluster
        return JobName(
            cluster, str(metadata.get("namespace")), self._workload.plural, str(metadata.get("name"))
        )


async def apply(
    connection: ClusterConnection, path: str, obj: Mapping[str, Any], action: str, **params: str
) -> None:
    """Create or update an object by server-side apply."""
    await connection.patch(
        path,
        obj,
        action=action,
        content_type=APPLY,
        params={"fieldManager": MANAGER, **params},
        within=CREATE,
    )


def _split(resource: Mapping[str, Any]) -> tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]:
    """Split the manifest into the job, which is the last job in the list, and the other objects."""
    items = list(resource.get("items") or ()) if resource.get("kind") == "List" else [resource]
    at_job = next((i for i in reversed(range(len(items))) if workload_of(items[i]) is not None), None)
    if at_job is None:
        raise InvalidRequest("The manifest has no job.", fix="Add a PyTorchJob, TrainJob, JobSet or Job.")
    return items[at_job], [obj for i, obj in enumerate(items) if i != at_job]


def _marked(job: Mapping[str, Any], namespace: str, mark: str) -> dict[str, Any]:
    metadata = fields(job, "metadata")
    labels = {**fields(metadata, "labels"), LAUNCH_LABEL: mark}
    return {**job, "metadata": {**metadata, "namespace": namespace, "labels": labels}}
