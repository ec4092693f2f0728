"""Predictions of each deployed model for Monitoring: their number, their results and their latencies.

The predictions stay in memory for an hour and end with the emulator.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from tui.emulator.messages import Pb
from tui.emulator.monitoring.descriptors import (
    ENDPOINT_RESOURCE,
    ERRORS,
    LATENCIES,
    PREDICTIONS,
    RESPONSES,
    EmulatedMetric,
)
from tui.emulator.monitoring.distribution import NOTHING, Distribution
from tui.emulator.monitoring.series import SeriesPoint, TimeSeries
from tui.emulator.serving.container_log import resource_labels

KEPT = 3600.0
"""Retention of the counts in seconds."""
_Key = tuple[str, str]


@dataclass(slots=True)
class _Period:
    """Requests of one sample period, which begins at `start` (ns); `last` is the newest request's time."""

    start: int
    last: int = 0
    predictions: int = 0
    responses: dict[str, int] = field(default_factory=dict)
    latencies: dict[str, Distribution] = field(default_factory=dict)


class Loads:
    """Counts by endpoint and id of the deployed model. Use only in the event loop."""

    def __init__(self, sample_period: float) -> None:
        self._period = max(1, int(sample_period * 1e9))
        self._most = max(1, int(KEPT * 1e9) // self._period)
        self._periods: dict[_Key, deque[_Period]] = {}
        self._names: dict[_Key, dict[str, str]] = {}

    def count(
        self, endpoint: Pb, deployed: Pb, *, predictions: int, status: int, latencies: dict[str, float]
    ) -> None:
        """Count one request: its HTTP status, and its seconds by latency_type."""
        key = (endpoint.name, deployed.id)
        self._names[key] = {
            "deployed_model_id": deployed.id,
            "spot": "False",
            "model_display_name": deployed.display_name,
            "endpoint_display_name": endpoint.display_name,
        }
        now = time.time_ns()
        start = now - now % self._period
        periods = self._periods.setdefault(key, deque(maxlen=self._most))
        if not periods or periods[-1].start != start:
            periods.append(_Period(start))
        period, code = periods[-1], f"{status // 100}xx"
        period.last = max(now, start + 1)
        period.predictions += predictions
        period.responses[code] = period.responses.get(code, 0) + 1
        for kind, seconds in latencies.items():
            before = period.latencies.get(kind, NOTHING)
            period.latencies[kind] = before + Distribution.of([seconds * 1000])

    def series(self, project: str, metric: EmulatedMetric, since: int) -> Iterator[TimeSeries]:
        """Yield the series of a metric of this project's endpoints, from the time `since` in ns on."""
        for key, periods in self._periods.items():
            if key[0].split("/")[1] != project:
                continue
            points: dict[tuple[tuple[str, str], ...], list[SeriesPoint]] = {}
            for period in periods:
                # Don't use the period's end: a reader whose interval ends now would miss the newest requests.
                end = period.last
                if end <= since:
                    continue
                for labels, value, distribution in _values(metric, period):
                    points.setdefault(labels, []).append(SeriesPoint(period.start, end, value, distribution))
            for labels, values in points.items():
                about = metric.type, ENDPOINT_RESOURCE, metric.kind, metric.value_type, metric.unit
                every_label = {**self._names[key], **dict(labels)}
                yield TimeSeries(*about, every_label, resource_labels(key[0]), tuple(values))


def _values(
    metric: EmulatedMetric, period: _Period
) -> Iterator[tuple[tuple[tuple[str, str], ...], float, Distribution | None]]:
    """Yield the labels, value and distribution of a metric in one period."""
    if metric is PREDICTIONS:
        yield (), period.predictions, None
    elif metric is ERRORS:
        yield (), sum(count for code, count in period.responses.items() if code != "2xx"), None
    elif metric is RESPONSES:
        for code, count in period.responses.items():
            yield (("response_code", code),), count, None
    elif metric is LATENCIES:
        for kind, distribution in period.latencies.items():
            yield (("latency_type", kind),), 0.0, distribution
