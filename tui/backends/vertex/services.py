"""What a connected backend is made of. Imports the clients: load it late, in a thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from tui.backends.interface import ContextInfo, LogQuery
from tui.backends.vertex.health import Doctor
from tui.backends.vertex.jobs.service import Jobs
from tui.backends.vertex.logs.progress import ProgressReader
from tui.backends.vertex.logs.reader import Logs
from tui.backends.vertex.logs.tail import Tail
from tui.backends.vertex.logs.telemetry import read_live
from tui.backends.vertex.metrics import Metrics
from tui.backends.vertex.quotas import Quotas
from tui.backends.vertex.storage import Storage
from tui.backends.vertex.transport.channels import Clients
from tui.backends.vertex.transport.connect import Endpoint
from tui.domain.job import Job
from tui.domain.telemetry import LiveLine
from tui.domain.vertex.prices import Prices

if TYPE_CHECKING:
    from tui.backends.vertex.preflight.checks import Preflight


@dataclass(frozen=True, slots=True)
class Rooms:
    """One object for each service, over the same channels."""

    info: ContextInfo
    clients: Clients
    jobs: Jobs
    logs: Logs
    metrics: Metrics
    progress: ProgressReader
    quotas: Quotas
    storage: Storage
    doctor: Doctor

    def tail(self, query: LogQuery) -> Tail:
        return Tail(self.clients, self.info.project, self.jobs, self.logs, query)

    def preflight(self) -> Preflight:
        """Looks before a launch; its clients are imported by then (`lazy.PREFLIGHT`)."""
        from tui.backends.vertex.preflight.checks import Preflight
        from tui.backends.vertex.preflight.clients import CheckClients

        return Preflight(self.info, CheckClients(self.clients), self.storage, self.quotas)

    async def prices(self) -> Prices:
        """Prices of the billing catalogue; its client is imported by then (`lazy.PRICES`)."""
        from tui.backends.vertex.prices import read_prices

        return await read_prices(self.clients)

    async def live(self, jobs: Sequence[Job], since: datetime) -> Sequence[LiveLine]:
        return await read_live(self.logs, jobs, since)


def furnish(info: ContextInfo, endpoint: Endpoint) -> Rooms:
    """Clients and readers of one context; call it in the event loop that will use them."""
    clients = Clients(endpoint)
    jobs = Jobs(info, clients)
    logs = Logs(info, clients, jobs)
    return Rooms(
        info,
        clients,
        jobs,
        logs,
        Metrics(info, clients, jobs),
        ProgressReader(logs, endpoint.pace.overlap),
        Quotas(info, clients),
        Storage(info, endpoint),
        Doctor(info, clients),
    )
