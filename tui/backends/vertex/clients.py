"""The official async clients over one channel a service, loaded late and in a thread."""

from __future__ import annotations

import asyncio
import gc
import os
from dataclasses import dataclass
from typing import Any, Protocol

# gRPC's core reads these when it is loaded; its words would go to file descriptor 2, over the screen.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
os.environ.setdefault("GLOG_minloglevel", "3")

OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)
"""A half-open connection is noticed within 40 s; the defaults took 70 (client facts, 'Faults')."""


class Endpoint(Protocol):
    """Where the services of a context answer."""

    async def prepare(self) -> None:
        """Make the endpoint reachable: credentials, or a server to be started. Raises BackendError."""

    def channel(self, host: str) -> Any:
        """A `grpc.aio` channel to a service host, e.g. `us-central1-aiplatform.googleapis.com`."""


@dataclass(frozen=True, slots=True)
class Clients:
    """One client a service; jobs by region."""

    jobs: dict[str, Any]
    logging: Any
    monitoring: Any
    quotas: Any
    channels: tuple[Any, ...]

    async def aclose(self) -> None:
        for channel in self.channels:
            await channel.close()


async def load() -> None:
    """Import the client packages in a thread, the collector off: a full collection stalls the screen."""
    await asyncio.to_thread(_import)


def _import() -> None:
    was_on = gc.isenabled()
    gc.disable()
    try:
        import google.cloud.aiplatform_v1.services.job_service
        import google.cloud.cloudquotas_v1
        import google.cloud.logging_v2.services.logging_service_v2
        import google.cloud.monitoring_v3  # noqa: F401
    finally:
        if was_on:
            gc.enable()
    gc.freeze()


def open_clients(endpoint: Endpoint, regions: tuple[str, ...]) -> Clients:
    """Clients over fresh channels; call within the event loop that will use them."""
    from google.cloud.aiplatform_v1.services.job_service import JobServiceAsyncClient
    from google.cloud.aiplatform_v1.services.job_service.transports import JobServiceGrpcAsyncIOTransport
    from google.cloud.cloudquotas_v1.services.cloud_quotas import CloudQuotasAsyncClient
    from google.cloud.cloudquotas_v1.services.cloud_quotas.transports import CloudQuotasGrpcAsyncIOTransport
    from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2AsyncClient
    from google.cloud.logging_v2.services.logging_service_v2.transports import (
        LoggingServiceV2GrpcAsyncIOTransport,
    )
    from google.cloud.monitoring_v3.services.metric_service import MetricServiceAsyncClient
    from google.cloud.monitoring_v3.services.metric_service.transports import (
        MetricServiceGrpcAsyncIOTransport,
    )

    channels = {region: endpoint.channel(f"{region}-aiplatform.googleapis.com") for region in regions}
    log_channel = endpoint.channel("logging.googleapis.com")
    metric_channel = endpoint.channel("monitoring.googleapis.com")
    quota_channel = endpoint.channel("cloudquotas.googleapis.com")
    return Clients(
        {
            r: JobServiceAsyncClient(transport=JobServiceGrpcAsyncIOTransport(channel=c))
            for r, c in channels.items()
        },
        LoggingServiceV2AsyncClient(transport=LoggingServiceV2GrpcAsyncIOTransport(channel=log_channel)),
        MetricServiceAsyncClient(transport=MetricServiceGrpcAsyncIOTransport(channel=metric_channel)),
        CloudQuotasAsyncClient(transport=CloudQuotasGrpcAsyncIOTransport(channel=quota_channel)),
        (*channels.values(), log_channel, metric_channel, quota_channel),
    )
