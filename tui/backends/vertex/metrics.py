"""Utilization series of a job from Cloud Monitoring."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from google.cloud.monitoring_v3.types import ListTimeSeriesRequest, common, metric_service

from tui.backends.vertex.calls import TIMEOUT, read
from tui.backends.vertex.clients import Clients
from tui.backends.vertex.convert import moment
from tui.backends.vertex.log_filter import quote
from tui.domain.job import Job
from tui.domain.metric import (
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
)  # fmt: skip

WINDOW = timedelta(hours=6)
_COUNTERS = frozenset({NET_IN, NET_OUT})
_REPLICA_LABELS = ("replica_id", "replica", "task_name")
_ACCELERATOR_LABELS = ("accelerator_id", "accelerator", "gpu_id")


async def read_metrics(
    clients: Clients, project: str, job: Job, *, local: bool, since: datetime | None, metrics: Sequence[str]
) -> MetricsReading:
    """All series of `metrics` (empty: every training metric), and why the others have none."""
    wanted = tuple(metrics) or TRAINING_METRICS
    now = datetime.now(UTC)
    begin = since or max(job.create_time or now - WINDOW, now - WINDOW)
    found = await asyncio.gather(
        *(_series(clients, project, job.id, m, begin=begin, end=now, local=local) for m in wanted)
    )
    series = tuple(s for group in found for s in group)
    missing = tuple(
        NotMeasured(metric, _why(metric, job, local=local))
        for metric, group in zip(wanted, found, strict=True)
        if not group
    )
    return MetricsReading(series, missing, now)


async def _series(
    clients: Clients, project: str, job_id: str, metric: str, *, begin: datetime, end: datetime, local: bool
) -> list[Series]:
    request = ListTimeSeriesRequest(
        name=f"projects/{project}",
        filter=f'metric.type="{TRAINING_PREFIX}{metric}" AND resource.type="cloudml_job" '
        f"AND resource.labels.job_id={quote(job_id)}",
        interval=common.TimeInterval(start_time=begin, end_time=end),
        view=ListTimeSeriesRequest.TimeSeriesView.FULL,
    )
    if metric in _COUNTERS:
        # Counters are shown as rates; the cloud samples once a minute, the emulator every few seconds.
        request.aggregation = common.Aggregation(
            alignment_period={"seconds": 5 if local else 60},
            per_series_aligner=common.Aggregation.Aligner.ALIGN_RATE,
        )
    pager = await read(
        f"read {metric}",
        lambda: clients.monitoring.list_time_series(request=request, retry=None, timeout=TIMEOUT),
    )
    found = []
    async for page in pager.pages:
        for pb in metric_service.ListTimeSeriesResponse.pb(page).time_series:
            found.append(_one(metric, pb))
    return sorted(found, key=lambda s: (s.replica, s.accelerator))


def _one(metric: str, pb: Any) -> Series:
    labels = dict(pb.metric.labels)
    points = tuple(
        (moment(p.interval.end_time), _value(p.value))
        for p in reversed(pb.points)
    )  # fmt: skip
    return Series(
        metric,
        _label(labels, _REPLICA_LABELS),
        _label(labels, _ACCELERATOR_LABELS),
        UNITS.get(metric, pb.unit),
        points,
        tuple(sorted(labels.items())),
    )


def _value(value: Any) -> float:
    return float(value.double_value if value.HasField("double_value") else value.int64_value)


def _label(labels: dict[str, str], names: Sequence[str]) -> str:
    """The first of `names` that the series has; label names are not documented (vertex facts 6.2)."""
    return next((labels[n] for n in names if n in labels), "")


def _why(metric: str, job: Job, *, local: bool) -> str:
    if metric in {GPU, GPU_MEMORY}:
        if not job.accelerators:
            return "no accelerator in this job"
        if local:
            return "no GPU answers on this machine"
    if job.start_time is None:
        return "the job has not run yet"
    return "no sample yet" if local else "no sample yet; Cloud Monitoring is up to 5 minutes late"
