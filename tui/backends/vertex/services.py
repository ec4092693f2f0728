"""Builds the services of a connected context. The import is slow: import this module late, in a thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tui.backends.interface import ContextInfo, ServiceHealth, Services
from tui.backends.vertex import health
from tui.backends.vertex.jobs.custom_jobs import CustomJobs
from tui.backends.vertex.logs.progress import ProgressReader
from tui.backends.vertex.logs.reader import LogReader
from tui.backends.vertex.logs.service import Logs
from tui.backends.vertex.logs.telemetry import Telemetry
from tui.backends.vertex.metrics import Metrics
from tui.backends.vertex.preflight.service import VertexPreflight
from tui.backends.vertex.prices import PriceList
from tui.backends.vertex.quotas import VertexQuotas
from tui.backends.vertex.resources import Resources
from tui.backends.vertex.schedules import Schedules
from tui.backends.vertex.serving import Serving
from tui.backends.vertex.shells import EmulatorShells
from tui.backends.vertex.storage import Storage
from tui.backends.vertex.transport.channels import Clients
from tui.backends.vertex.transport.connect import Endpoint
from tui.domain.core.job import Job
from tui.kinds.kind import resolve
from tui.kinds.registry import kinds


@dataclass(frozen=True, slots=True)
class OpenContext:
    """An open context: its channels, and the services over them."""

    info: ContextInfo
    clients: Clients
    services: Services

    async def aclose(self) -> None:
        """Close the channels. Running calls end with Unavailable."""
        await self.clients.close()

    async def check_health(self) -> Sequence[ServiceHealth]:
        """Return a line for each service."""
        return await health.check(self.info, self.clients)


def build_services(info: ContextInfo, endpoint: Endpoint) -> OpenContext:
    """Return the services of a context. Call this function in the event loop that will use the services."""
    clients = Clients(endpoint)
    by_kind = {
        kind.key: resolve(kind.services["vertex"])(info, clients)
        for kind in kinds()
        if "vertex" in kind.services
    }
    # Metrics and progress are read from custom jobs, which other kinds run.
    jobs = next(service for service in by_kind.values() if isinstance(service, CustomJobs))

    async def read_job(name: str) -> Job:
        """Return a job of any kind that has a log."""
        owner = next((service for service in by_kind.values() if service.owns(name)), jobs)
        return await owner.get(name)

    reader = LogReader(info, clients, read_job)
    quotas, storage = VertexQuotas(info, clients), Storage(info, endpoint)
    shells = endpoint.shells()
    services = Services(
        jobs=by_kind,
        logs=Logs(clients, info.project, read_job, reader),
        metrics=Metrics(info, clients, jobs.get),
        progress=ProgressReader(reader, endpoint.pace.overlap),
        telemetry=Telemetry(reader),
        quotas=quotas,
        prices=PriceList(clients),
        storage=storage,
        preflight=VertexPreflight(info, clients, storage, quotas),
        serving=Serving(info, clients, reader),
        resources=Resources(info, clients),
        schedules=Schedules(info, clients),
        shells=EmulatorShells(endpoint, shells) if shells else None,
    )
    return OpenContext(info, clients, services)
