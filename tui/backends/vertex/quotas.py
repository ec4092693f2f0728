"""Training quotas: limits from Cloud Quotas, usage from Monitoring (docs/facts/vertex.md 7.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tui.backends.interface import ContextInfo, InvalidRequest, NotFound, QuotaService
from tui.backends.vertex.metrics import list_series, points
from tui.backends.vertex.transport.channels import Clients
from tui.domain.core.quota import UNLIMITED, Quota
from tui.domain.vertex.catalog import SERVICE

LIMITS_AGE = timedelta(minutes=10)
"""Age up to which limits are cached. Limits change about daily, and the screen shows their age."""
USAGE_WINDOW = timedelta(days=7)
"""Time before now in which usage is read. Usage is written on change, so the newest point may be days old."""
USAGE_METRICS = (
    "serviceruntime.googleapis.com/quota/allocation/usage",
    # The quota page lists large GPUs as concurrent. Their usage may be in this metric (docs/facts/vertex.md
    # 7.4).
    "serviceruntime.googleapis.com/quota/concurrent/usage",
)
_TRAINING = ("custom_model_training", "restricted_image_training")
_PAGE = 1000

Usage = dict[tuple[str, str], tuple[int, datetime]]
"""Amount and time by (metric without the service's prefix, region)."""


class VertexQuotas(QuotaService):
    """Quotas of one context's project."""

    def __init__(self, info: ContextInfo, clients: Clients) -> None:
        self._info = info
        self._clients = clients
        self._infos: list[Any] = []
        self._read_at: datetime | None = None

    async def read(self, regions: Sequence[str] = ()) -> list[Quota]:
        """Return every training quota of `regions`, by region and metric."""
        infos, usage = await asyncio.gather(self._limits(), self._usage())
        quotas = []
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
                quotas.append(quota)
        return sorted(quotas, key=lambda quota: (quota.region, quota.metric))

    async def _limits(self) -> list[Any]:
        now = datetime.now(UTC)
        # A limit of the emulator may change at any time, and reading it costs nothing.
        fresh = timedelta(0) if self._info.local else LIMITS_AGE
        if self._read_at is not None and now - self._read_at < fresh:
            return self._infos
        project = self._info.project
        infos = self._clients.pages(
            f"read the quota limits of {project}",
            lambda: self._clients.quotas().list_quota_infos,
            {"parent": f"projects/{project}/locations/global/services/{SERVICE}", "page_size": _PAGE},
            "quota_infos",
        )
        self._infos = [pb async for pb in infos if any(word in pb.metric for word in _TRAINING)]
        self._read_at = now
        return self._infos

    async def _usage(self) -> Usage:
        groups = await asyncio.gather(*(self._usage_of(metric) for metric in USAGE_METRICS))
        return {key: amount for group in groups for key, amount in group.items()}

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
                action=f"read the quota usage of {self._info.project}",
            )
        except (NotFound, InvalidRequest):
            # The project has never used a quota of this kind.
            return {}
        usage: Usage = {}
        for pb in series:
            values = points(pb)
            name = pb.metric.labels.get("quota_metric", "").removeprefix(f"{SERVICE}/")
            region = pb.resource.labels.get("location", "")
            if values and any(word in name for word in _TRAINING):
                usage[name, region] = (int(values[-1][1]), values[-1][0])
        return usage


def limit_of(pb: Any, region: str) -> int:
    """Return the limit of a QuotaInfo in `region`. Entries go from specific to general (docs/facts/vertex.md
    7.4).

    Return `UNLIMITED` without any entry, and 0 if no entry names the region.
    """
    if not pb.dimensions_infos:
        return UNLIMITED
    for dimensions in pb.dimensions_infos:
        if region in dimensions.applicable_locations:
            return int(dimensions.details.value)
    return 0
