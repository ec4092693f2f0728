"""Checks whether each service of a context answers: one small call to each, all at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tui.backends.interface import BackendError, ContextInfo, ServiceHealth
from tui.backends.vertex.transport import deadlines
from tui.backends.vertex.transport.channels import Clients, Method
from tui.domain.core.metric import CPU, TRAINING_PREFIX
from tui.domain.vertex.catalog import SERVICE


class HealthCheck:
    """Calls the services of one context."""

    def __init__(self, info: ContextInfo, clients: Clients) -> None:
        self._info = info
        self._clients = clients

    async def check(self) -> list[ServiceHealth]:
        """A line for each service, jobs region by region; takes `deadlines.CHECK` seconds at most."""
        clients, project = self._clients, self._info.project
        regions = ["-"] if clients.endpoint.all_regions else list(self._info.regions)
        logs = {
            "resource_names": [f"projects/{project}"],
            "filter": 'resource.type="ml_job"',
            "order_by": "timestamp desc",
            "page_size": 1,
        }
        metric = {"name": f"projects/{project}/metricDescriptors/{TRAINING_PREFIX}{CPU}"}
        quotas = {"parent": f"projects/{project}/locations/global/services/{SERVICE}", "page_size": 1}
        return await asyncio.gather(
            *(self._jobs(region) for region in regions),
            self._try("logs", lambda: clients.logging().list_log_entries, logs),
            self._try("metrics", lambda: clients.monitoring().get_metric_descriptor, metric),
            self._try("quotas", lambda: clients.quotas().list_quota_infos, quotas),
        )

    async def _jobs(self, region: str) -> ServiceHealth:
        request = {
            "parent": f"projects/{self._info.project}/locations/{region}",
            "page_size": 1,
            "read_mask": {"paths": ["name"]},
        }
        where = "every region" if region == "-" else region
        return await self._try(
            f"jobs of {where}", lambda: self._clients.jobs(region).list_custom_jobs, request
        )

    async def _try(self, action: str, method: Callable[[], Method], request: Any) -> ServiceHealth:
        """Call the method once; whether it answered."""
        try:
            await self._clients.once(f"reach {action}", method, request, within=deadlines.CHECK)
        except BackendError as error:
            return ServiceHealth(action, False, error.message, error.fix)
        return ServiceHealth(action, True, "answers")
