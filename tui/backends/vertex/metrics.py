"""Time series of one job's replicas (docs/facts/vertex.md 6)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from google.cloud.monitoring_v3.types import common, metric_service
from google.protobuf import duration_pb2, timestamp_pb2

from tui.backends.interface import BackendError, ContextInfo, MetricService
from tui.backends.vertex.logs.filters import job_id, quote
from tui.backends.vertex.logs.reader import Get
from tui.backends.vertex.timestamps import moment
from tui.backends.vertex.transport import deadlines
from tui.backends.vertex.transport.channels import Clients
from tui.domain.core.job import Job
from tui.domain.core.metric import (
    GPU,
    GPU_MEMORY,
    NET_IN,
    NET_OUT,
    TRAINING_METRICS,
    TRAINING_PREFIX,
    UNITS,
    MetricsReading,
    NotMeasured,
    Series,
)
from tui.domain.core.resource_name import log_project
from tui.domain.vertex.worker_pools import PREFIX

COUNTERS = frozenset({NET_IN, NET_OUT})
BEFORE = timedelta(seconds=300)
AFTER = timedelta(seconds=600)
"""Extension of the window after the job's end, because series start late and lag (docs/facts/vertex.md
6.1)."""
MOST_POINTS = 2000
"""Maximum number of points of a series. A longer series has rates over longer periods."""
PAGE = 100_000

_ACCELERATOR_LABELS = ("accelerator_id", "accelerator_index", "gpu_id", "accelerator")
_REPLICA_LABELS = ("replica_id", "task_name", "replica", "replica_name", "task_id")
_FULL = metric_service.ListTimeSeriesRequest.TimeSeriesView.FULL


class Metrics(MetricService):
    """Reads Monitoring of one context's project."""

    def __init__(self, info: ContextInfo, clients: Clients, get: Get) -> None:
        self._info = info
        self._clients = clients
        self._get = get
        self._periods: dict[str, float] = {}

    async def read(
        self,
        name: str,
        *,
        since: datetime | None = None,
        metrics: Sequence[str] = (),
        job: Job | None = None,
    ) -> MetricsReading:
        """Read all series of a job concurrently, with one call per metric."""
        names = tuple(dict.fromkeys(metrics or TRAINING_METRICS))
        now = datetime.now(UTC)
        # The job and the descriptors are separate round trips.
        shown, _ = await asyncio.gather(_known(job) if job else self._get(name), self.prepare(names))
        window = _window(shown, since, now)
        answers = await asyncio.gather(*(self._series(shown, metric, window) for metric in names))
        series = tuple(line for lines in answers for line in lines)
        measured = {line.metric for line in series}
        missing = [
            NotMeasured(metric, _reason(shown, metric, now)) for metric in names if metric not in measured
        ]
        return MetricsReading(series, tuple(missing), now)

    async def prepare(self, metrics: Sequence[str] = TRAINING_METRICS) -> None:
        await asyncio.gather(*(self._sample_period(metric) for metric in metrics if metric in COUNTERS))

    async def _series(self, job: Job, metric: str, window: tuple[datetime, datetime]) -> list[Series]:
        aggregation = None
        if metric in COUNTERS:
            aggregation = await self._rate(metric, window)
        text = (
            f'metric.type={quote(TRAINING_PREFIX + metric)} AND resource.type="cloudml_job"'
            f" AND resource.labels.job_id={quote(job_id(job.name))}"
        )
        messages = await list_series(
            self._clients,
            log_project(job.name, self._info.project),
            text,
            window,
            action=f"read {metric} of {job.name}",
            aggregation=aggregation,
        )
        return [series for pb in messages if (series := _series(metric, pb)).points]

    async def _rate(self, metric: str, window: tuple[datetime, datetime]) -> dict[str, Any]:
        """Return the aggregation that converts a counter to bytes per second, over the sample period or
        longer."""
        sampled = await self._sample_period(metric)
        span = (window[1] - window[0]).total_seconds()
        period = max(math.ceil(sampled), 1, math.ceil(span / MOST_POINTS))
        return {
            "alignment_period": duration_pb2.Duration(seconds=period),
            "per_series_aligner": common.Aggregation.Aligner.ALIGN_RATE,
        }

    async def _sample_period(self, metric: str) -> float:
        """Return the sampling interval in seconds from the metric's descriptor, which is read once."""
        if metric not in self._periods:
            name = f"projects/{self._info.project}/metricDescriptors/{TRAINING_PREFIX}{metric}"
            usual = self._clients.endpoint.pace.sample_period
            try:
                descriptor = await self._clients.read(
                    f"read the descriptor of {metric}",
                    lambda: self._clients.monitoring().get_metric_descriptor,
                    name=name,
                )
            except BackendError:
                # Reading the series fails with the same error if the error matters.
                return usual
            period = descriptor.metadata.sample_period
            self._periods[metric] = (period.seconds + period.nanos / 1e9) or usual
        return self._periods[metric]


async def _known(job: Job) -> Job:
    return job


async def list_series(
    clients: Clients,
    project: str,
    text: str,
    window: tuple[datetime, datetime],
    *,
    action: str,
    aggregation: Mapping[str, Any] | None = None,
) -> list[Any]:
    """Return the time series of all pages of ListTimeSeries, as plain protobuf messages."""
    request = {
        "name": f"projects/{project}",
        "filter": text,
        "interval": {"start_time": _timestamp(window[0]), "end_time": _timestamp(window[1])},
        "aggregation": dict(aggregation) if aggregation else None,
        "view": _FULL,
        "page_size": PAGE,
    }
    pages = clients.pages(
        action, lambda: clients.monitoring().list_time_series, request, "time_series", deadlines.SERIES
    )
    return [series async for series in pages]


def points(pb: Any) -> list[tuple[datetime, float]]:
    """Return the points of a TimeSeries message, oldest first; the API sends them newest first."""
    values = []
    for point in reversed(pb.points):
        at = moment(point.interval, "end_time")
        kind = point.value.WhichOneof("value")
        if at is not None and kind in {"double_value", "int64_value", "bool_value"}:
            values.append((at, float(getattr(point.value, kind))))
    return values


def _series(metric: str, pb: Any) -> Series:
    labels = {**pb.metric.labels, **pb.metadata.user_labels}
    accelerator = _label(labels, _ACCELERATOR_LABELS)
    return Series(
        metric,
        _label(labels, _REPLICA_LABELS) or _replica_like(labels),
        accelerator,
        UNITS.get(metric, pb.unit or "1"),
        tuple(points(pb)),
        tuple(sorted(labels.items())),
    )


def _label(labels: Mapping[str, str], names: Sequence[str]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")


def _replica_like(labels: Mapping[str, str]) -> str:
    """Return the value of an undocumented label that looks like a replica (docs/facts/vertex.md 6.2)."""
    return next((value for value in labels.values() if value.startswith(PREFIX)), "")


def _window(job: Job, since: datetime | None, now: datetime) -> tuple[datetime, datetime]:
    began = job.start_time or job.create_time or now
    start = began - BEFORE if since is None else since
    end = now if job.end_time is None else min(now, job.end_time + AFTER)
    # The service refuses an empty interval.
    return min(start, end - timedelta(seconds=1)), end


def _reason(job: Job, metric: str, now: datetime) -> str:
    if metric in {GPU, GPU_MEMORY} and not job.accelerators:
        return "no accelerator in this job"
    if job.start_time is None:
        return "the job has not run yet"
    if now - job.start_time < BEFORE:
        return "no samples yet; Cloud Monitoring shows them up to 5 min late"
    return "no samples in this time; Cloud Monitoring shows them up to 5 min late"


def _timestamp(moment: datetime) -> timestamp_pb2.Timestamp:
    stamp = timestamp_pb2.Timestamp()
    stamp.FromDatetime(moment)
    return stamp
