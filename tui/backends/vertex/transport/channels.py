"""Channels and clients, one per service address."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import grpc
from google.auth.transport.grpc import AuthMetadataPlugin
from google.cloud.aiplatform_v1.services.job_service import JobServiceAsyncClient
from google.cloud.aiplatform_v1.services.job_service.transports.grpc_asyncio import (
    JobServiceGrpcAsyncIOTransport,
)
from google.cloud.aiplatform_v1.services.persistent_resource_service import (
    PersistentResourceServiceAsyncClient,
)
from google.cloud.aiplatform_v1.services.persistent_resource_service.transports.grpc_asyncio import (
    PersistentResourceServiceGrpcAsyncIOTransport,
)
from google.cloud.aiplatform_v1.services.pipeline_service import PipelineServiceAsyncClient
from google.cloud.aiplatform_v1.services.pipeline_service.transports.grpc_asyncio import (
    PipelineServiceGrpcAsyncIOTransport,
)
from google.cloud.cloudquotas_v1.services.cloud_quotas import CloudQuotasAsyncClient
from google.cloud.cloudquotas_v1.services.cloud_quotas.transports.grpc_asyncio import (
    CloudQuotasGrpcAsyncIOTransport,
)
from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2AsyncClient
from google.cloud.logging_v2.services.logging_service_v2.transports.grpc_asyncio import (
    LoggingServiceV2GrpcAsyncIOTransport,
)
from google.cloud.monitoring_v3.services.metric_service import MetricServiceAsyncClient
from google.cloud.monitoring_v3.services.metric_service.transports.grpc_asyncio import (
    MetricServiceGrpcAsyncIOTransport,
)

from tui.backends.errors import unexpected_reply
from tui.backends.reply_limit import MOST_BYTES
from tui.backends.vertex.transport import deadlines
from tui.backends.vertex.transport.connect import Endpoint, Service, token_request
from tui.backends.vertex.transport.errors import UndecodableReply
from tui.backends.vertex.transport.retry import Caller, Limiter

Method = Callable[..., Awaitable[Any]]
"""A method of an async client."""

_CLIENTS: dict[Service, tuple[Any, Any]] = {
    Service.JOBS: (JobServiceAsyncClient, JobServiceGrpcAsyncIOTransport),
    Service.LOGGING: (LoggingServiceV2AsyncClient, LoggingServiceV2GrpcAsyncIOTransport),
    Service.MONITORING: (MetricServiceAsyncClient, MetricServiceGrpcAsyncIOTransport),
    Service.QUOTAS: (CloudQuotasAsyncClient, CloudQuotasGrpcAsyncIOTransport),
}
_MOST_ITEMS = 5000
"""Maximum number of items of a page whose size is not requested."""
_RESOURCES = (PersistentResourceServiceAsyncClient, PersistentResourceServiceGrpcAsyncIOTransport)
_PIPELINES = (PipelineServiceAsyncClient, PipelineServiceGrpcAsyncIOTransport)


def channel_options(reconnect: float) -> list[tuple[str, int]]:
    """Return the options of every channel. `reconnect` is the maximum wait between attempts, in seconds.

    A half-open server is noticed after 40 s. The ping timeout must be set twice, because the transport's own
    default of 60 s would hide the keepalive's (docs/facts/clients.md 'Faults').
    """
    return [
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.ping_timeout_ms", 10_000),
        ("grpc.max_receive_message_length", MOST_BYTES),
        ("grpc.max_send_message_length", -1),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 1_000),
        ("grpc.max_reconnect_backoff_ms", int(reconnect * 1000)),
        # Only our own code retries, and each context has separate connections.
        ("grpc.enable_retries", 0),
        ("grpc.use_local_subchannel_pool", 1),
    ]


class _Decoded(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc]
    """Raises UndecodableReply for a reply that grpc.aio could not decode and therefore returns as None."""

    async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        call = await continuation(client_call_details, request)
        if await call is None:
            raise UndecodableReply
        return call


class Clients:
    """Official async clients over our channels, created on first use, in the event loop."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.caller = Caller(endpoint)
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._clients: dict[tuple[Any, str], Any] = {}

    def pipelines(self, region: str) -> PipelineServiceAsyncClient:
        """Return the PipelineService client of one region, at the address of JobService."""
        return self._client(Service.JOBS, region, _PIPELINES)  # type: ignore[no-any-return]

    def resources(self, region: str) -> PersistentResourceServiceAsyncClient:
        """Return the PersistentResourceService client of one region, at the address of JobService."""
        return self._client(Service.JOBS, region, _RESOURCES)  # type: ignore[no-any-return]

    def jobs(self, region: str) -> JobServiceAsyncClient:
        """Return the JobService client of one region."""
        return self._client(Service.JOBS, region)  # type: ignore[no-any-return]

    def logging(self) -> LoggingServiceV2AsyncClient:
        return self._client(Service.LOGGING)  # type: ignore[no-any-return]

    def monitoring(self) -> MetricServiceAsyncClient:
        return self._client(Service.MONITORING)  # type: ignore[no-any-return]

    def quotas(self) -> CloudQuotasAsyncClient:
        return self._client(Service.QUOTAS)  # type: ignore[no-any-return]

    def channel_of(self, service: Service, region: str = "") -> grpc.aio.Channel:
        """Return the channel of a service, for calls without a client."""
        return self._channel(self.endpoint.target(service, region))

    def client_of(self, service: Service, region: str, client: Any, transport: Any) -> Any:
        """Return the shared client of this class at a service's address, for classes imported elsewhere.

        Each transport adds an interceptor to its channel, which slows down every call. Some hundred
        interceptors exceed Python's recursion limit, so clients must be shared.
        """
        return self._client(service, region, (client, transport))

    async def read(
        self,
        action: str,
        method: Callable[[], Method],
        *request: Any,
        within: float = deadlines.READ,
        patience: float | None = None,
        limiter: Limiter | None = None,
        **fields: Any,
    ) -> Any:
        """Return the plain reply of a read-only method. The call is repeated while that may help.

        `method` returns the client's method for each attempt. Raises BackendError.
        """

        async def send(seconds: float) -> Any:
            return await plain(await method()(*request, retry=None, timeout=seconds, **fields))

        reply = await self.caller.read(action, send, within=within, patience=patience, limiter=limiter)
        if hasattr(reply, "next_page_token"):
            _check_page(action, request[0], reply)
        return reply

    async def once(
        self,
        action: str,
        method: Callable[[], Method],
        *request: Any,
        within: float = deadlines.CHANGE,
        **fields: Any,
    ) -> Any:
        """Return the plain reply of a method that is called once. Raises BackendError."""

        async def send(seconds: float) -> Any:
            return await plain(await method()(*request, retry=None, timeout=seconds, **fields))

        return await self.caller.once(action, send, within=within)

    async def pages(
        self,
        action: str,
        method: Callable[[], Method],
        request: Mapping[str, Any],
        field: str,
        within: float = deadlines.READ,
    ) -> AsyncGenerator[Any, None]:
        """Yield the items of `field` of every page of a list, as plain messages. Raises BackendError."""
        token = ""
        while True:
            page = await self.read(action, method, {**request, "page_token": token}, within=within)
            for item in getattr(page, field):
                yield item
            token = page.next_page_token
            if not token:
                return

    async def close(self) -> None:
        """Close all channels. Running calls end with `Unavailable`."""
        self.caller.closed = True
        channels = list(self._channels.values())
        self._channels.clear()
        self._clients.clear()
        for channel in channels:
            await channel.close()

    def _client(self, service: Service, region: str = "", classes: tuple[Any, Any] | None = None) -> Any:
        target = self.endpoint.target(service, region)
        client, transport = classes or _CLIENTS[service]
        existing = self._clients.get((client, target))
        if existing is None:
            existing = client(transport=transport(channel=self._channel(target)))
            self._clients[client, target] = existing
        return existing

    def _channel(self, target: str) -> grpc.aio.Channel:
        channel = self._channels.get(target)
        if channel is None:
            options = channel_options(self.endpoint.pace.reconnect)
            credentials = self.endpoint.credentials
            if credentials is None:
                channel = grpc.aio.insecure_channel(target, options=options, interceptors=[_Decoded()])
            else:
                plugin = AuthMetadataPlugin(credentials, token_request())
                secure = grpc.composite_channel_credentials(
                    grpc.ssl_channel_credentials(), grpc.metadata_call_credentials(plugin)
                )
                channel = grpc.aio.secure_channel(target, secure, options=options, interceptors=[_Decoded()])
            self._channels[target] = channel
        return channel


def _check_page(action: str, request: Any, page: Any) -> None:
    """Raise Unavailable for a page that refers to itself, or that has more items than requested: they would
    take endless time."""
    read = request.get if isinstance(request, dict) else partial(getattr, request)
    token, most = read("page_token", ""), read("page_size", 0) or _MOST_ITEMS
    if page.next_page_token and page.next_page_token == token:
        raise unexpected_reply(action, "a page with another token", page.next_page_token)
    for field, value in page.ListFields():
        if field.is_repeated and len(value) > most:
            raise unexpected_reply(
                action, f"a page of at most {most:,} items", f"{len(value):,} {field.name}"
            )


async def plain(reply: Any) -> Any:
    """Return a reply as plain protobuf: the first page of a list, the wrapped message, or the reply
    itself."""
    if hasattr(reply, "pages"):
        return await first_page(reply)
    return type(reply).pb(reply) if hasattr(type(reply), "pb") else reply


async def first_page(pager: Any) -> Any:
    """Return the first page of a list. Each further page is a separate call with its own retries."""
    async for page in pager.pages:
        return type(page).pb(page)
    raise AssertionError("a list has at least one page")
