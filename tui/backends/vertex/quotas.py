"""Training quotas: limits from Cloud Quotas, usage from Cloud Monitoring."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from google.cloud.cloudquotas_v1.types import ListQuotaInfosRequest, resources
from google.cloud.monitoring_v3.types import ListTimeSeriesRequest, common, metric_service

from tui.backends import base
from tui.backends.vertex.calls import TIMEOUT, read
from tui.backends.vertex.clients import Clients
from tui.backends.vertex.convert import moment
from tui.domain.quota import Quota

SERVICE = "aiplatform.googleapis.com"
_TRAINING = ("custom_model_training_", "restricted_image_training_")
_WINDOW = timedelta(days=7)
"""Allocation usage is written on change, at worst daily (vertex facts 7.4)."""
_USAGE = (
    "serviceruntime.googleapis.com/quota/allocation/usage",
    "serviceruntime.googleapis.com/quota/concurrent/usage",
)

Usage = dict[tuple[str, str], tuple[int, datetime]]


async def read_quotas(clients: Clients, project: str, regions: Sequence[str]) -> list[Quota]:
    """Quotas of `regions` (empty or "-": every region that has a limit), with usage where there is any."""
    limits, usage = await asyncio.gather(_limits(clients, project), _usage(clients, project))
    every = "-" in regions or not regions
    found = []
    for (metric, region), (limit, info, read_at) in sorted(limits.items()):
        used = usage.get((metric, region))
        if every and not limit and used is None:
            continue
        if not every and region not in regions:
            continue
        found.append(
            Quota(
                metric,
                region,
                limit,
                used[0] if used else None,
                info.quota_display_name or info.metric_display_name,
                info.quota_id,
                info.metric_unit,
                "_preemptible_" in metric,
                read_at,
                used[1] if used else None,
            )
        )
    return found


async def _limits(clients: Clients, project: str) -> dict[tuple[str, str], tuple[int, Any, datetime]]:
    request = ListQuotaInfosRequest(
        parent=f"projects/{project}/locations/global/services/{SERVICE}", page_size=1000
    )
    pager = await read(
        "read the quota limits",
        lambda: clients.quotas.list_quota_infos(request=request, retry=None, timeout=TIMEOUT),
    )
    found: dict[tuple[str, str], tuple[int, Any, datetime]] = {}
    now = datetime.now(UTC)
    async for info in pager:
        pb = resources.QuotaInfo.pb(info)
        metric = pb.metric.removeprefix(f"{SERVICE}/")
        if not metric.startswith(_TRAINING):
            continue
        # Ordered from specific to general: the first that names a region is its limit.
        for dimensions in pb.dimensions_infos:
            for region in dimensions.applicable_locations:
                found.setdefault((metric, region), (dimensions.details.value, pb, now))
    return found


async def _usage(clients: Clients, project: str) -> Usage:
    groups = await asyncio.gather(*(_usage_of(clients, project, m) for m in _USAGE))
    found: Usage = {}
    for group in groups:
        found |= group
    return found


async def _usage_of(clients: Clients, project: str, metric: str) -> Usage:
    now = datetime.now(UTC)
    request = ListTimeSeriesRequest(
        name=f"projects/{project}",
        filter=f'metric.type="{metric}" AND resource.type="consumer_quota" '
        f'AND resource.labels.service="{SERVICE}"',
        interval=common.TimeInterval(start_time=now - _WINDOW, end_time=now),
        view=ListTimeSeriesRequest.TimeSeriesView.FULL,
    )
    found: Usage = {}
    try:
        pager = await read(
            "read the quota usage",
            lambda: clients.monitoring.list_time_series(request=request, retry=None, timeout=TIMEOUT),
        )
        async for page in pager.pages:
            for pb in metric_service.ListTimeSeriesResponse.pb(page).time_series:
                name = pb.metric.labels.get("quota_metric", "").removeprefix(f"{SERVICE}/")
                region = pb.resource.labels.get("location", "")
                if pb.points and name.startswith(_TRAINING):
                    newest = pb.points[0]
                    found[name, region] = (int(newest.value.int64_value), moment(newest.interval.end_time))
    except (base.NotFound, base.InvalidRequest):
        # A project in which this metric was never written does not know its type.
        return {}
    return found
