"""Requests, errors and latencies of deployed models, from Cloud Monitoring.

The metrics are documented in 'Google Cloud metrics', aiplatform: response_count by class of the HTTP status,
and prediction_latencies, whose series with the `latency_type` total exists for every model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from google.cloud.monitoring_v3.types import common
from google.protobuf import duration_pb2

from tui.backends.vertex.logs.filters import quote
from tui.backends.vertex.metrics import list_series, points
from tui.backends.vertex.transport.channels import Clients
from tui.domain.core.resource_name import log_project
from tui.domain.serving.load import Load
from tui.domain.serving.traffic import ServingEndpoint

PREFIX = "aiplatform.googleapis.com/prediction/online/"
RESOURCE = "aiplatform.googleapis.com/Endpoint"
WINDOW = timedelta(minutes=5)
"""Time before now that the metrics cover. The service's points arrive up to some minutes late."""
PERIOD = 60
"""Minimum alignment period of the service, in seconds."""
Aligner = common.Aggregation.Aligner
_Key = tuple[str, str, str]
"""Region, endpoint id, and id of the deployed model."""


async def read_loads(
    clients: Clients, project: str, endpoints: Sequence[ServingEndpoint]
) -> dict[tuple[str, str], Load]:
    """Return the loads of models with requests, by (endpoint name, deployed model id). Raises
    BackendError."""
    busy = [endpoint for endpoint in endpoints if endpoint.deployed]
    if not busy:
        return {}
    end = datetime.now(UTC)
    window = (end - WINDOW, end)
    where = log_project(busy[0].name, project)

    async def read(metric: str, aligner: Any, period: int, more: str = "") -> list[Any]:
        text = f'metric.type={quote(PREFIX + metric)} AND resource.type="{RESOURCE}"{more}'
        aggregation = {
            "alignment_period": duration_pb2.Duration(seconds=period),
            "per_series_aligner": aligner,
        }
        return await list_series(
            clients, where, text, window, action=f"read {metric}", aggregation=aggregation
        )

    window_seconds = int(WINDOW.total_seconds())
    total = ' AND metric.labels.latency_type="total"'
    answers, median, high = await asyncio.gather(
        read("response_count", Aligner.ALIGN_DELTA, PERIOD),
        read("prediction_latencies", Aligner.ALIGN_PERCENTILE_50, window_seconds, total),
        read("prediction_latencies", Aligner.ALIGN_PERCENTILE_95, window_seconds, total),
    )
    counts = _counts(answers)
    p50, p95 = _last(median), _last(high)
    loads: dict[tuple[str, str], Load] = {}
    for endpoint in busy:
        for deployed in endpoint.deployed:
            key = (endpoint.region, endpoint.id, deployed.id)
            if key in counts:
                requests, seconds, errors = counts[key]
                loads[endpoint.name, deployed.id] = Load(
                    requests, seconds, errors, p50.get(key), p95.get(key)
                )
    return loads


def _counts(series: Sequence[Any]) -> Mapping[_Key, tuple[int, float, dict[str, int]]]:
    """Return the requests, the seconds in which they arrived, and errors by class."""
    totals: dict[_Key, float] = {}
    ends: dict[_Key, set[datetime]] = {}
    errors: dict[_Key, dict[str, float]] = {}
    for line in series:
        key, code = _key(line), line.metric.labels["response_code"]
        for at, value in points(line):
            totals[key] = totals.get(key, 0.0) + value
            ends.setdefault(key, set()).add(at)
            if not code.startswith("2") and value:
                classes = errors.setdefault(key, {})
                classes[code] = classes.get(code, 0.0) + value
    return {
        key: (
            round(total),
            (max(ends[key]) - min(ends[key])).total_seconds() + PERIOD,
            {code: round(count) for code, count in errors.get(key, {}).items()},
        )
        for key, total in totals.items()
    }


def _last(series: Sequence[Any]) -> dict[_Key, float]:
    return {_key(line): values[-1][1] for line in series if (values := points(line))}


def _key(series: Any) -> _Key:
    labels = series.resource.labels
    return labels["location"], labels["endpoint_id"], series.metric.labels["deployed_model_id"]
