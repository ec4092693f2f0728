"""Training quotas: limits from Cloud Quotas, usage from Monitoring (docs/facts/vertex.md 7.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from google.cloud.cloudquotas_v1.types import cloudquotas

from tui.backends.interface import ContextInfo, InvalidRequest, NotFound, QuotaService
from tui.backends.vertex.metrics import list_series, points
from tui.backends.vertex.transport.channels import Clients
from tui.backends.vertex.transport.paging import first_page
from tui.domain.core.quota import UNLIMITED, Quota
from tui.domain.vertex.catalog import SERVICE

LIMITS_AGE = timedelta(minutes=10)
"""How long limits that were read stand; they change about daily, and say when they were read."""
USAGE_WINDOW = timedelta(days=7)
"""Usage is written on change: the newest point may be days old."""
USAGE_METRICS = (
    "serviceruntime.googleapis.com/quota/allocation/usage",
    # Large GPUs are called concurrent in the quota page; their usage may be here (docs/facts/vertex.md 7.4).
    "serviceruntime.googleapis.com/quota/concurrent/usage",
)
_TRAINING = ("custom_model_training", "restricted_image_training")
_PAGE = 1000

Usage = dict[tuple[str, str], tuple[int, datetime]]
"""(metric without the service's prefix, region) → amount and when."""


class VertexQuotas(QuotaService):
    """Quotas of one context's project."""

    def __init__(self, info: ContextInfo, clients: Clients) -> None:
        self._info = info
        self._clients = clients
        self._infos: list[Any] = []
        self._read_at: datetime | None = None

    async def read(self, regions: Sequence[str] = ()) -> list[Quota]:
        """Every training quota of `regions`, by region and metric."""
        infos, usage = await asyncio.gather(self._limits(), self._usage())
        found = []
        for region in regions or self._info.regions:
            for pb in infos:
                metric = pb.metric.removeprefix(f"{SERVICE}/")
                used = usage.get((metric, region))
                quota = Quota(
                    metric=metric,
                    region=region,
                    limit=limit_of(pb, region),
                    used=None if used is None else used[0],
                    display_name=pb.quota_display_name or pb.metric_display_name,
                    quota_id=pb.quota_id,
                    unit=pb.metric_unit,
                    preemptible="_preemptible_" in metric,
                    limit_read_at=self._read_at,
                    used_at=None if used is None else used[1],
                )
                found.append(quota)
        return sorted(found, key=lambda quota: (quota.region, quota.metric))

    async def _limits(self) -> list[Any]:
        now = datetime.now(UTC)
        # Here a limit is a line in the emulator's settings; asking again costs nothing.
        fresh = timedelta(0) if self._info.local else LIMITS_AGE
        if self._read_at is not None and now - self._read_at < fresh:
            return self._infos
        found: list[Any] = []
        token = ""
        while True:
            reply = await self._page(token)
            found.extend(pb for pb in reply.quota_infos if any(word in pb.metric for word in _TRAINING))
            token = reply.next_page_token
            if not token:
                break
        self._infos, self._read_at = found, now
        return found

    async def _page(self, token: str) -> Any:
        request = cloudquotas.ListQuotaInfosRequest(
            parent=f"projects/{self._info.project}/locations/global/services/{SERVICE}",
            page_size=_PAGE,
            page_token=token,
        )

        async def send(seconds: float) -> Any:
            call = self._clients.quotas().list_quota_infos
            return await first_page(await call(request, retry=None, timeout=seconds))

        return await self._clients.caller.read(f"read the quota limits of {self._info.project}", send)

    async def _usage(self) -> Usage:
        groups = await asyncio.gather(*(self._usage_of(metric) for metric in USAGE_METRICS))
        found: Usage = {}
        for group in groups:
            found.update(group)
        return found

    async def _usage_of(self, metric: str) -> Usage:
        now = datetime.now(UTC)
        text = (
            f'metric.type="{metric}" AND resource.type="consumer_quota"'
            f' AND resource.labels.service="{SERVICE}"'
        )
        try:
            series = await list_series(
                self._clients,
                self._info.project,
                text,
                (now - USAGE_WINDOW, now),
                what=f"read the quota usage of {self._info.project}",
            )
        except (NotFound, InvalidRequest):
            # A project that never wrote this metric does not know its type.
            return {}
        found: Usage = {}
        for pb in series:
            seen = points(pb)
            name = pb.metric.labels.get("quota_metric", "").removeprefix(f"{SERVICE}/")
            region = pb.resource.labels.get("location", "")
            if seen and any(word in name for word in _TRAINING):
                found[name, region] = (int(seen[-1][1]), seen[-1][0])
        return found


def limit_of(pb: Any, region: str) -> int:
    """Limit of a QuotaInfo in `region`; entries go from specific to general (docs/facts/vertex.md 7.4).

    No entry at all means unlimited, a region that none names has nothing.
    """
    if not pb.dimensions_infos:
        return UNLIMITED
    for dimensions in pb.dimensions_infos:
        if region in dimensions.applicable_locations:
            return int(dimensions.details.value)
    return 0
