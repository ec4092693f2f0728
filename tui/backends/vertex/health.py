"""Whether each service that a context needs answers: one small call to each, all at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from google.cloud.aiplatform_v1.types import job_service
from google.cloud.cloudquotas_v1.types import cloudquotas
from google.cloud.logging_v2.types import logging as logging_types

from tui.backends.interface import BackendError, ContextInfo, ServiceHealth
from tui.backends.vertex.transport import deadlines
from tui.backends.vertex.transport.channels import Clients
from tui.domain.core.metric import CPU, TRAINING_PREFIX
from tui.domain.vertex.catalog import SERVICE


class HealthCheck:
    """Tries the services of one context."""

    def __init__(self, info: ContextInfo, clients: Clients) -> None:
        self._info = info
        self._clients = clients

    async def check(self) -> list[ServiceHealth]:
        """A line for each service, jobs region by region; takes `deadlines.CHECK` seconds at most."""
        regions = ["-"] if self._clients.endpoint.all_regions else list(self._info.regions)
        tries = [self._try(f"jobs of {self._where(region)}", self._jobs(region)) for region in regions]
        tries += [
            self._try("logs", self._logs),
            self._try("metrics", self._metrics),
            self._try("quotas", self._quotas),
        ]
        return list(await asyncio.gather(*tries))

    def _where(self, region: str) -> str:
        return "every region" if region == "-" else region

    async def _try(self, what: str, send: Callable[[float], Awaitable[Any]]) -> ServiceHealth:
        try:
            await self._clients.caller.once(f"reach {what}", send, within=deadlines.CHECK)
        except BackendError as error:
            return ServiceHealth(what, False, error.message, error.fix)
        return ServiceHealth(what, True, "answers")

    def _jobs(self, region: str) -> Callable[[float], Awaitable[Any]]:
        request = job_service.ListCustomJobsRequest(
            parent=f"projects/{self._info.project}/locations/{region}",
            page_size=1,
            read_mask={"paths": ["name"]},
        )
        return lambda timeout: self._clients.jobs(region).list_custom_jobs(
            request, retry=None, timeout=timeout
        )

    def _logs(self, timeout: float) -> Awaitable[Any]:
        request = logging_types.ListLogEntriesRequest(
            resource_names=[f"projects/{self._info.project}"],
            filter='resource.type="ml_job"',
            order_by="timestamp desc",
            page_size=1,
        )
        return self._clients.logging().list_log_entries(request, retry=None, timeout=timeout)

    def _metrics(self, timeout: float) -> Awaitable[Any]:
        name = f"projects/{self._info.project}/metricDescriptors/{TRAINING_PREFIX}{CPU}"
        return self._clients.monitoring().get_metric_descriptor(name=name, retry=None, timeout=timeout)

    def _quotas(self, timeout: float) -> Awaitable[Any]:
        request = cloudquotas.ListQuotaInfosRequest(
            parent=f"projects/{self._info.project}/locations/global/services/{SERVICE}", page_size=1
        )
        return self._clients.quotas().list_quota_infos(request, retry=None, timeout=timeout)
