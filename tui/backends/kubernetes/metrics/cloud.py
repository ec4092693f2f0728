"""Metrics of a GKE cluster's pods from Cloud Monitoring. The import is slow: load this module late.

The names of metrics and labels come from Google's documentation and are not verified
(docs/facts/kubeflow.md).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from google.cloud.monitoring_v3.types import common
from google.protobuf import duration_pb2

from tui.backends.kubernetes.logs.cloud import CloudClients
from tui.backends.kubernetes.logs.pods import replica_in
from tui.backends.vertex.logs.filters import quote
from tui.backends.vertex.metrics import list_series, points
from tui.domain.core.job import Job
from tui.domain.core.metric import CPU, GPU, GPU_MEMORY, MEMORY, NET_IN, NET_OUT, UNITS, Series
from tui.domain.kubernetes.names import JobName

PREFIX = "kubernetes.io/"
BEFORE, AFTER = timedelta(minutes=5), timedelta(minutes=5)
PERIOD = 60
"""Sampling interval in seconds."""


@dataclass(frozen=True, slots=True)
class _Source:
    """A metric of Cloud Monitoring. Its values are divided by `scale`."""

    type: str
    resource: str = "k8s_container"
    scale: float = 1.0
    rate: bool = False
    filter: str = ""


_SOURCES: Mapping[str, _Source] = {
    CPU: _Source("container/cpu/limit_utilization"),
    MEMORY: _Source("container/memory/limit_utilization", filter='metric.labels.memory_type="non-evictable"'),
    GPU: _Source("container/accelerator/duty_cycle", scale=100.0),
    NET_IN: _Source("pod/network/received_bytes_count", "k8s_pod", rate=True),
    NET_OUT: _Source("pod/network/sent_bytes_count", "k8s_pod", rate=True),
}
_USED = _Source("container/accelerator/memory_used")
_TOTAL = _Source("container/accelerator/memory_total")
Key = tuple[str, str]
"""(replica, accelerator)."""


class CloudMetrics(CloudClients):
    """Reads metrics of one project."""

    async def read(
        self, job: Job, place: JobName, metrics: Iterable[str], since: datetime | None
    ) -> list[Series]:
        """Return the series of the job's pods. Raises BackendError."""
        window = _window(job, since)
        if window is None:
            return []
        answers = await asyncio.gather(*(self._metric(job, place, metric, window) for metric in metrics))
        return [series for lines in answers for series in lines]

    async def _metric(
        self, job: Job, place: JobName, metric: str, window: tuple[datetime, datetime]
    ) -> list[Series]:
        if metric == GPU_MEMORY:
            used, total = await asyncio.gather(
                self._points(job, place, _USED, window), self._points(job, place, _TOTAL, window)
            )
            values = {key: _shares(samples, total.get(key, ())) for key, samples in used.items()}
        elif metric in _SOURCES:
            values = await self._points(job, place, _SOURCES[metric], window)
        else:
            values = {}
        return [
            Series(metric, replica, accelerator, UNITS.get(metric, "1"), tuple(points_))
            for (replica, accelerator), points_ in values.items()
            if points_
        ]

    async def _points(
        self, job: Job, place: JobName, source: _Source, window: tuple[datetime, datetime]
    ) -> dict[Key, list[tuple[datetime, float]]]:
        groups = [group.name for group in job.groups]
        pods = f"{re.escape(place.name)}-({'|'.join(map(re.escape, groups))})(-.*)?"
        labels = {
            "namespace_name": place.namespace,
            "cluster_name": self.place.cluster,
            "location": self.place.location,
        }
        parts = [
            f"metric.type={quote(PREFIX + source.type)}",
            f"resource.type={quote(source.resource)}",
            *(f"resource.labels.{name}={quote(value)}" for name, value in labels.items() if value),
            f"resource.labels.pod_name=monitoring.regex.full_match({quote(pods)})",
            *([source.filter] if source.filter else []),
        ]
        messages = await list_series(
            await self.open(),
            self.place.project,
            " AND ".join(parts),
            window,
            action=f"read {source.type} of {place.name}",
            aggregation=_rate() if source.rate else None,
        )
        values: dict[Key, list[tuple[datetime, float]]] = {}
        for pb in messages:
            replica = replica_in(pb.resource.labels.get("pod_name", ""), place.name, groups)
            if replica:
                key = replica, pb.metric.labels.get("accelerator_id", "")
                values[key] = [(at, value / source.scale) for at, value in points(pb)]
        return values


def _rate() -> dict[str, Any]:
    """Return the aggregation that converts counters to bytes per second."""
    return {
        "alignment_period": duration_pb2.Duration(seconds=PERIOD),
        "per_series_aligner": common.Aggregation.Aligner.ALIGN_RATE,
    }


def _shares(
    used: Iterable[tuple[datetime, float]], total: Iterable[tuple[datetime, float]]
) -> list[tuple[datetime, float]]:
    whole = dict(total)
    return [(at, value / whole[at]) for at, value in used if whole.get(at)]


def _window(job: Job, since: datetime | None) -> tuple[datetime, datetime] | None:
    began = job.start_time or job.create_time
    if began is None:
        return None
    now = datetime.now(UTC)
    end = now if job.end_time is None else min(now, job.end_time + AFTER)
    # The service refuses an empty interval.
    return min(since or began - BEFORE, end - timedelta(seconds=1)), end
