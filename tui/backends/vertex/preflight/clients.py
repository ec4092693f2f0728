"""Clients that only the launch checks use. The import is slow: import this module late, in a thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.cloud.aiplatform_v1.services.tensorboard_service import TensorboardServiceAsyncClient
from google.cloud.aiplatform_v1.services.tensorboard_service.transports.grpc_asyncio import (
    TensorboardServiceGrpcAsyncIOTransport,
)
from google.cloud.artifactregistry_v1.services.artifact_registry import ArtifactRegistryAsyncClient
from google.cloud.artifactregistry_v1.services.artifact_registry.transports.grpc_asyncio import (
    ArtifactRegistryGrpcAsyncIOTransport,
)
from google.cloud.iam_admin_v1.services.iam import IAMAsyncClient
from google.cloud.iam_admin_v1.services.iam.transports.grpc_asyncio import IAMGrpcAsyncIOTransport
from google.cloud.resourcemanager_v3.services.projects import ProjectsAsyncClient
from google.cloud.resourcemanager_v3.services.projects.transports.grpc_asyncio import (
    ProjectsGrpcAsyncIOTransport,
)

from tui.backends.vertex.transport.channels import Clients, Method
from tui.backends.vertex.transport.connect import Service


class CheckClients:
    """Clients that use the context's channels. Each client is created on first use, in the event loop."""

    def __init__(self, clients: Clients) -> None:
        self.clients = clients

    async def read(self, action: str, method: Callable[[], Method], *request: Any, **fields: Any) -> Any:
        """Return the plain reply of a read-only method, or raise BackendError after a short while."""
        return await self.clients.read(action, method, *request, patience=2.0, **fields)

    def projects(self) -> Any:
        return self._over(Service.PROJECTS, "", ProjectsAsyncClient, ProjectsGrpcAsyncIOTransport)

    def accounts(self) -> Any:
        return self._over(Service.ACCOUNTS, "", IAMAsyncClient, IAMGrpcAsyncIOTransport)

    def registry(self) -> Any:
        return self._over(
            Service.REGISTRY, "", ArtifactRegistryAsyncClient, ArtifactRegistryGrpcAsyncIOTransport
        )

    def boards(self, region: str) -> Any:
        """Return the TensorboardService client of one region."""
        return self._over(
            Service.JOBS, region, TensorboardServiceAsyncClient, TensorboardServiceGrpcAsyncIOTransport
        )

    def _over(
        self, service: Service, region: str, client: Callable[..., Any], transport: Callable[..., Any]
    ) -> Any:
        return self.clients.client_of(service, region, client, transport)
