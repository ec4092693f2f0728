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


async def check(info: ContextInfo, clients: Clients) -> list[ServiceHealth]:
    """Return one result per service, and one per region for jobs. The checks take at most `deadlines.CHECK`
    seconds."""
    project = f"projects/{info.project}"
    logs = {
        "resource_names": [project],
        "filter": 'resource.type="ml_job"',
        "order_by": "timestamp desc",
        "page_size": 1,
    }
    metric = {"name": f"{project}/metricDescriptors/{TRAINING_PREFIX}{CPU}"}
    quotas = {"parent": f"{project}/locations/global/services/{SERVICE}", "page_size": 1}

    async def call(name: str, method: Callable[[], Method], request: Any) -> ServiceHealth:
        try:
            await clients.once(f"reach {name}", method, request, within=deadlines.CHECK)
        except BackendError as error:
            return ServiceHealth(name, False, error.message, error.fix)
        return ServiceHealth(name, True, "answers")

    def jobs(region: str) -> Any:
        parent = f"{project}/locations/{region}"
        request = {"parent": parent, "page_size": 1, "read_mask": {"paths": ["name"]}}
        name = f"jobs of {'every region' if region == '-' else region}"
        return call(name, lambda: clients.jobs(region).list_custom_jobs, request)

    return await asyncio.gather(
        *map(jobs, ["-"] if clients.endpoint.all_regions else info.regions),
        call("logs", lambda: clients.logging().list_log_entries, logs),
        call("metrics", lambda: clients.monitoring().get_metric_descriptor, metric),
        call("quotas", lambda: clients.quotas().list_quota_infos, quotas),
    )
