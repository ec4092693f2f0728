"""Models and endpoints of Vertex AI: ModelService and EndpointService."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from google.api_core.exceptions import Aborted

from tui.backends.interface import BackendError, ContextInfo, FailedPrecondition, Stopped, Unavailable
from tui.backends.serving import Deployment, RegionResults, ServingService
from tui.backends.vertex.jobs.operations import wait_for
from tui.backends.vertex.logs import convert
from tui.backends.vertex.logs.filters import quote, stamp
from tui.backends.vertex.logs.reader import LogReader
from tui.backends.vertex.regions import RegionLists, newest_first, region_in
from tui.backends.vertex.serving_load import read_loads
from tui.backends.vertex.timestamps import moment
from tui.backends.vertex.transport import deadlines
from tui.backends.vertex.transport.channels import Clients, plain
from tui.backends.vertex.transport.connect import Service
from tui.domain.core.log_entry import LogEntry
from tui.domain.serving.load import Load
from tui.domain.serving.rollout import percents_of, shares
from tui.domain.serving.traffic import Deployed, Model, ServingEndpoint

Pb = Any
RESOURCE = "aiplatform.googleapis.com/Endpoint"
BACK = timedelta(days=1)
"""Period in which logs are searched, because an unbounded read is slow (docs/facts/vertex.md 5.2)."""
LONGEST_CHANGE = 45 * 60.0
"""Maximum wait for a model to be deployed, in seconds. The service's own limit is not documented."""


class _Overtaken(BackendError):
    """The endpoint was changed since its etag was read."""

    def __init__(self) -> None:
        super().__init__("another client has changed it in the meantime")


class Serving(ServingService):
    """Models and endpoints of one context's project, in its regions."""

    def __init__(self, info: ContextInfo, clients: Clients, reader: LogReader) -> None:
        self._info = info
        self._clients = clients
        self._reader = reader
        self._lists = RegionLists(info, clients)

    async def models(self) -> RegionResults[Model]:
        async def read(region: str) -> list[Model]:
            request = {"parent": self._lists.parent(region)}
            messages = await self._lists.all(
                f"list the models of {region}",
                lambda: _models(self._clients, region).list_models,
                request,
                "models",
            )
            return [self._model(pb, region) for pb in messages]

        return await self._lists.everywhere(read)

    async def versions(self, model: str) -> Sequence[Model]:
        region = region_in(model, "models")
        messages = await self._lists.all(
            f"list the versions of {model}",
            lambda: _models(self._clients, region).list_model_versions,
            {"name": model},
            "models",
        )
        return newest_first(self._model(pb, region) for pb in messages)

    async def endpoints(self) -> RegionResults[ServingEndpoint]:
        async def read(region: str) -> list[ServingEndpoint]:
            request = {"parent": self._lists.parent(region)}
            messages = await self._lists.all(
                f"list the endpoints of {region}",
                lambda: _endpoints(self._clients, region).list_endpoints,
                request,
                "endpoints",
            )
            return [self._endpoint(pb, region) for pb in messages]

        return await self._lists.everywhere(read)

    async def split(self, endpoint: str, percents: Mapping[str, int], etag: str = "") -> ServingEndpoint:
        region = region_in(endpoint, "endpoints")
        request = {
            "endpoint": {"name": endpoint, "traffic_split": dict(percents), "etag": etag},
            "update_mask": {"paths": ["traffic_split"]},
        }

        async def send(seconds: float) -> Pb:
            call = _endpoints(self._clients, region).update_endpoint
            try:
                return await plain(await call(request, retry=None, timeout=seconds))
            except Aborted as error:
                # The caller would repeat an aborted request, which fails again: the etag is outdated.
                raise _Overtaken from error

        action = f"split the traffic of {endpoint}"
        try:
            # A split may be sent again after a lost reply: it is idempotent.
            changed = await self._clients.caller.read(action, send, within=deadlines.CHANGE)
        except _Overtaken as error:
            # The other change may be this change, if its reply was lost.
            now = await self.endpoint(endpoint)
            if shares(percents_of(now)) == shares(percents):
                return now
            raise FailedPrecondition(
                f"Can't {action}: another client has changed the endpoint in the meantime.",
                fix="Check the split, then set it again.",
            ) from error
        return self._endpoint(changed, region)

    async def endpoint(self, name: str) -> ServingEndpoint:
        region = region_in(name, "endpoints")
        return self._endpoint(
            await self._clients.read(
                f"read {name}", lambda: _endpoints(self._clients, region).get_endpoint, name=name
            ),
            region,
        )

    async def loads(self, endpoints: Sequence[ServingEndpoint]) -> Mapping[tuple[str, str], Load]:
        return await read_loads(self._clients, self._info.project, endpoints)

    async def log(self, endpoint: str, deployed_id: str = "", limit: int = 200) -> Sequence[LogEntry]:
        parts = [
            f"resource.type={quote(RESOURCE)}",
            f"resource.labels.endpoint_id={quote(endpoint.rpartition('/')[2])}",
            f'timestamp>="{stamp(datetime.now(UTC) - BACK)}"',
        ]
        if deployed_id:
            parts.append(f"labels.deployed_model_id={quote(deployed_id)}")
        reply = await self._reader.page(" AND ".join(parts), (endpoint,), newest_first=True, size=limit)
        return [
            replace(entry, replica=pb.labels.get("deployed_model_id", ""))
            for entry, pb in zip(convert.entries(reply.entries[::-1]), reply.entries[::-1], strict=True)
        ]

    async def deploy(self, endpoint: str, deployment: Deployment) -> ServingEndpoint:
        kind, count = deployment.accelerator
        more = {"accelerator_type": kind, "accelerator_count": count} if count else {}
        resources = {"machine_spec": {"machine_type": deployment.machine, **more}, "min_replica_count": 1}
        request = {
            "endpoint": endpoint,
            "deployed_model": {
                "id": deployment.id,
                "model": deployment.model,
                "dedicated_resources": resources,
            },
            "traffic_split": dict(deployment.percents),
        }
        return await self._operated(
            f"deploy {deployment.model.rpartition('/')[2]}", endpoint, "deploy_model", request
        )

    async def undeploy(self, endpoint: str, deployed_id: str) -> ServingEndpoint:
        request = {"endpoint": endpoint, "deployed_model_id": deployed_id}
        return await self._operated(f"undeploy {deployed_id}", endpoint, "undeploy_model", request)

    async def _operated(
        self, action: str, endpoint: str, method: str, request: dict[str, Any]
    ) -> ServingEndpoint:
        """Run a long-running operation on an endpoint. Return the updated endpoint."""
        region = region_in(endpoint, "endpoints")

        async def send(seconds: float) -> Pb:
            call = getattr(_endpoints(self._clients, region), method)
            future = await call(request, retry=None, timeout=seconds)
            if future.operation.done:
                # asyncio would report the error of the client's own future as never retrieved.
                await future.exception()
            return future.operation

        try:
            begun = await self._clients.caller.once(action, send, within=deadlines.CREATE)
        except Unavailable as error:
            if isinstance(error, Stopped):
                raise
            raise Unavailable(
                f"{error.message.rstrip('.')}. The change may have begun anyway and cost money.",
                fix="Check the endpoint in a few minutes before you try again.",
            ) from error
        await wait_for(self._clients, region, begun, action, seconds=LONGEST_CHANGE)
        return await self.endpoint(endpoint)

    def _model(self, pb: Pb, region: str) -> Model:
        return Model(
            name=pb.name,
            display_name=pb.display_name,
            region=region,
            version=pb.version_id,
            context=self._info.name,
            aliases=tuple(pb.version_aliases),
            create_time=moment(pb, "version_create_time") or moment(pb, "create_time"),
            image=pb.container_spec.image_uri,
            artifacts=pb.artifact_uri,
            made_by=pb.training_pipeline or pb.pipeline_job,
            endpoints=tuple(dict.fromkeys(deployed.endpoint for deployed in pb.deployed_models)),
            labels=dict(pb.labels),
        )

    def _endpoint(self, pb: Pb, region: str) -> ServingEndpoint:
        return ServingEndpoint(
            name=pb.name,
            display_name=pb.display_name,
            region=region,
            context=self._info.name,
            create_time=moment(pb, "create_time"),
            deployed=tuple(
                _deployed(model, pb.traffic_split.get(model.id, 0)) for model in pb.deployed_models
            ),
            etag=pb.etag,
        )


def _deployed(pb: Pb, percent: int) -> Deployed:
    own = pb.dedicated_resources if pb.HasField("dedicated_resources") else None
    return Deployed(
        id=pb.id,
        model=pb.model,
        version=pb.model_version_id,
        display_name=pb.display_name,
        percent=percent,
        machine=own.machine_spec.machine_type if own is not None else "",
        replicas=(own.min_replica_count, own.max_replica_count) if own is not None else None,
        accelerator=_accelerator(own.machine_spec) if own is not None else "",
        accelerator_count=own.machine_spec.accelerator_count if own is not None else 0,
        create_time=moment(pb, "create_time"),
    )


def _accelerator(spec: Pb) -> str:
    """Return the accelerator's name in the API, or "" if there is no accelerator."""
    field = spec.DESCRIPTOR.fields_by_name["accelerator_type"]
    return field.enum_type.values_by_number[spec.accelerator_type].name if spec.accelerator_type else ""


# These clients are imported on first use, so that the console starts faster.


def _models(clients: Clients, region: str) -> Any:
    from google.cloud.aiplatform_v1.services.model_service import ModelServiceAsyncClient
    from google.cloud.aiplatform_v1.services.model_service.transports.grpc_asyncio import (
        ModelServiceGrpcAsyncIOTransport,
    )

    return clients.client_of(Service.JOBS, region, ModelServiceAsyncClient, ModelServiceGrpcAsyncIOTransport)


def _endpoints(clients: Clients, region: str) -> Any:
    from google.cloud.aiplatform_v1.services.endpoint_service import (
        EndpointServiceAsyncClient,
    )
    from google.cloud.aiplatform_v1.services.endpoint_service.transports.grpc_asyncio import (
        EndpointServiceGrpcAsyncIOTransport,
    )

    return clients.client_of(
        Service.JOBS, region, EndpointServiceAsyncClient, EndpointServiceGrpcAsyncIOTransport
    )
