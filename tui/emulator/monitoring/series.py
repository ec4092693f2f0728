"""Time series from samples: points, and counters as differences. Times are in ns since the epoch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from google.api import metric_pb2

from tui.emulator.monitoring.distribution import Distribution

Kind = metric_pb2.MetricDescriptor.MetricKind
ValueType = metric_pb2.MetricDescriptor.ValueType


@dataclass(frozen=True, slots=True)
class SeriesPoint:
    """A value over (start, end]. For a gauge, both are the time of the sample."""

    start: int
    end: int
    value: float
    distribution: Distribution | None = None
    """The value of a series of distributions, instead of a number."""


@dataclass(frozen=True, slots=True)
class Interval:
    """The interval (start, end], or a single point in time if both are equal."""

    start: int
    end: int

    def holds(self, at: int) -> bool:
        return self.start < at <= self.end or self.start == at == self.end


@dataclass(frozen=True, slots=True)
class TimeSeries:
    """One series; `points` are oldest first."""

    metric_type: str
    resource_type: str
    kind: int
    value_type: int
    unit: str
    metric_labels: Mapping[str, str] = field(default_factory=dict)
    resource_labels: Mapping[str, str] = field(default_factory=dict)
    points: tuple[SeriesPoint, ...] = ()

    @property
    def key(self) -> str:
        """Unique key among the series of a metric, which also defines their order."""
        labels = (*sorted(self.resource_labels.items()), *sorted(self.metric_labels.items()))
        return "\x1f".join(f"{name}={value}" for name, value in labels)


def gauge(samples: Iterable[tuple[int, float]]) -> list[SeriesPoint]:
    """Return the points of samples (time, value). Values that are not finite are dropped."""
    return [SeriesPoint(at, at, value) for at, value in samples if math.isfinite(value)]


def differences(samples: Iterable[tuple[int, float]]) -> list[SeriesPoint]:
    """Return the increases of a counter between its samples. A decrease counts as a reset to zero."""
    points = []
    before: tuple[int, float] | None = None
    for at, value in samples:
        if before is not None and at > before[0]:
            grown = value - before[1]
            points.append(SeriesPoint(before[0], at, value if grown < 0 else grown))
        before = (at, value)
    return points
