"""Models and endpoints of Vertex AI: ModelService and EndpointService."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from tui.backends.interface import BackendError, ContextInfo, InvalidRequest
from tui.backends.serving import Found, ServingService
from tui.backends.vertex.timestamps import moment
from tui.backends.vertex.transport import deadlines
from tui.backends.vertex.transport.channels import Clients
from tui.backends.vertex.transport.connect import Service
from tui.domain.resource_name import name_pattern
from tui.domain.serving.traffic import Deployed, Model, ServingEndpoint

T = TypeVar("T", Model, ServingEndpoint)
Pb = Any
PAGE = 100
_NEVER = datetime.min.replace(tzinfo=UTC)


class Serving(ServingService):
    """Models and endpoints of one context's project, in its regions."""

    def __init__(self, info: ContextInfo, clients: Clients) -> None:
        self._info = info
        self._clients = clients

    async def models(self) -> Found[Model]:
        async def read(region: str) -> list[Model]:
            call = _models(self._clients, region).list_models
            request = {"parent": self._parent(region), "page_size": PAGE}
            found = await self._pages(f"list the models of {region}", call, request, "models")
            return [self._model(pb, region) for pb in found]

        return await self._everywhere(read)

    async def versions(self, model: str) -> Sequence[Model]:
        region = _region(model, "models")
        call = _models(self._clients, region).list_model_versions
        request = {"name": model, "page_size": PAGE}
        found = await self._pages(f"list the versions of {model}", call, request, "models")
        return _newest_first(self._model(pb, region) for pb in found)

    async def endpoints(self) -> Found[ServingEndpoint]:
        async def read(region: str) -> list[ServingEndpoint]:
            call = _endpoints(self._clients, region).list_endpoints
            request = {"parent": self._parent(region), "page_size": PAGE}
            found = await self._pages(f"list the endpoints of {region}", call, request, "endpoints")
            return [self._endpoint(pb, region) for pb in found]

        return await self._everywhere(read)

    async def split(self, endpoint: str, percents: Mapping[str, int]) -> ServingEndpoint:
        region = _region(endpoint, "endpoints")
        request = {
            "endpoint": {"name": endpoint, "traffic_split": dict(percents)},
            "update_mask": {"paths": ["traffic_split"]},
        }

        async def send(seconds: float) -> Pb:
            call = _endpoints(self._clients, region).update_endpoint
            made = await call(request, retry=None, timeout=seconds)
            return type(made).pb(made)

        what = f"split the traffic of {endpoint}"
        # The same split twice is the same split: a lost reply does no harm.
        return self._endpoint(await self._clients.caller.read(what, send, within=deadlines.CHANGE), region)

    async def _everywhere(self, read: Callable[[str], Awaitable[list[T]]]) -> Found[T]:
        regions = self._info.regions
        answers = await asyncio.gather(*(read(region) for region in regions), return_exceptions=True)
        found: list[T] = []
        errors: dict[str, BackendError] = {}
        for region, answer in zip(regions, answers, strict=True):
            if isinstance(answer, BackendError):
                errors[region] = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found += answer
        return Found(_newest_first(found), errors)

    async def _pages(
        self, what: str, call: Callable[..., Awaitable[Any]], request: dict[str, Any], field: str
    ) -> list[Pb]:
        found: list[Pb] = []
        token = ""
        while True:

            async def send(seconds: float, token: str = token) -> Pb:
                pager = await call({**request, "page_token": token}, retry=None, timeout=seconds)
                async for page in pager.pages:
                    return type(page).pb(page)
                return None

            page = await self._clients.caller.read(what, send)
            found += getattr(page, field)
            token = page.next_page_token
            if not token:
                return found

    def _parent(self, region: str) -> str:
        return f"projects/{self._info.project}/locations/{region}"

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
            endpoints=tuple(dict.fromkeys(each.endpoint for each in pb.deployed_models)),
        )  # fmt: skip

    def _endpoint(self, pb: Pb, region: str) -> ServingEndpoint:
        return ServingEndpoint(
            name=pb.name,
            display_name=pb.display_name,
            region=region,
            context=self._info.name,
            create_time=moment(pb, "create_time"),
            deployed=tuple(_deployed(each, pb.traffic_split.get(each.id, 0)) for each in pb.deployed_models),
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
        create_time=moment(pb, "create_time"),
    )


def _newest_first(found: Any) -> list[Any]:
    return sorted(found, key=lambda each: each.create_time or _NEVER, reverse=True)


def _region(name: str, collection: str) -> str:
    """The region of a full resource name. Raises InvalidRequest."""
    match = name_pattern(collection).fullmatch(name)
    if match is None:
        raise InvalidRequest(
            f"{name!r} is no full resource name.",
            fix=f"Write projects/PROJECT/locations/REGION/{collection}/ID.",
        )
    return match[2]


# The clients are loaded with the first call: the console's start needs neither.


def _models(clients: Clients, region: str) -> Any:
    from google.cloud.aiplatform_v1.services.model_service import ModelServiceAsyncClient
    from google.cloud.aiplatform_v1.services.model_service.transports.grpc_asyncio import (
        ModelServiceGrpcAsyncIOTransport,
    )

    transport = ModelServiceGrpcAsyncIOTransport(channel=clients.channel_of(Service.JOBS, region))
    return ModelServiceAsyncClient(transport=transport)


def _endpoints(clients: Clients, region: str) -> Any:
    from google.cloud.aiplatform_v1.services.endpoint_service import (
        EndpointServiceAsyncClient,
    )
    from google.cloud.aiplatform_v1.services.endpoint_service.transports.grpc_asyncio import (
        EndpointServiceGrpcAsyncIOTransport,
    )

    transport = EndpointServiceGrpcAsyncIOTransport(channel=clients.channel_of(Service.JOBS, region))
    return EndpointServiceAsyncClient(transport=transport)
