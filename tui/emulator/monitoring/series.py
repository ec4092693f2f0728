"""Time series from samples: points, counters as differences, alignment. Times are in ns since the epoch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from google.api import metric_pb2
from google.cloud.monitoring_v3.types import common

Kind = metric_pb2.MetricDescriptor.MetricKind
ValueType = metric_pb2.MetricDescriptor.ValueType
Aligner = common.Aggregation.Aligner


@dataclass(frozen=True, slots=True)
class Point:
    """A value over (start, end]; for a gauge both are the time of the sample."""

    start: int
    end: int
    value: float


@dataclass(frozen=True, slots=True)
class Interval:
    """(start, end]; the single point in time if both are equal."""

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
    points: tuple[Point, ...] = ()

    @property
    def key(self) -> str:
        """Unique key among the series of a metric; also their order."""
        labels = (*sorted(self.resource_labels.items()), *sorted(self.metric_labels.items()))
        return "\x1f".join(f"{name}={value}" for name, value in labels)


def gauge(samples: Iterable[tuple[int, float]]) -> list[Point]:
    """Points of samples (time, value); values that are not finite are dropped."""
    return [Point(at, at, value) for at, value in samples if math.isfinite(value)]


def differences(samples: Iterable[tuple[int, float]]) -> list[Point]:
    """Increases of a counter between its samples; a decrease is a reset to zero."""
    points = []
    before: tuple[int, float] | None = None
    for at, value in samples:
        if before is not None and at > before[0]:
            grown = value - before[1]
            points.append(Point(before[0], at, value if grown < 0 else grown))
        before = (at, value)
    return points


class NotAligned(ValueError):
    """The aligner can't be used on this series; the message names those that can."""


def align(series: TimeSeries, aligner: int, period: int, interval: Interval) -> TimeSeries:
    """One point for each period with data; the last period ends at the interval's end.

    Raises:
        NotAligned: for an aligner that does not match the series' kind, or is not supported.
    """
    if aligner in (Aligner.ALIGN_RATE, Aligner.ALIGN_DELTA):
        if series.kind != Kind.DELTA:
            raise NotAligned(f"{Aligner(aligner).name} is for counters, and {series.metric_type} is a gauge")
        return _distribute(series, aligner == Aligner.ALIGN_RATE, period, interval)
    reduce = _REDUCE.get(aligner)
    if reduce is None:
        known = ", ".join(Aligner(number).name for number in (*_REDUCE, Aligner.ALIGN_RATE))
        raise NotAligned(f"aligner {aligner} is not supported here; use ALIGN_DELTA, {known}")
    groups: dict[int, list[float]] = {}
    for point in series.points:
        if interval.holds(point.end):
            groups.setdefault((interval.end - point.end) // period, []).append(point.value)
    points = [
        _aligned(index, reduce(values), period, interval) for index, values in sorted(groups.items())[::-1]
    ]
    number = {Aligner.ALIGN_MEAN: ValueType.DOUBLE, Aligner.ALIGN_COUNT: ValueType.INT64}
    return replace(
        series, kind=Kind.GAUGE, value_type=number.get(aligner, series.value_type), points=tuple(points)
    )


_REDUCE: Mapping[int, Callable[[Sequence[float]], float]] = {
    Aligner.ALIGN_MIN: min,
    Aligner.ALIGN_MAX: max,
    Aligner.ALIGN_MEAN: fmean,
    Aligner.ALIGN_COUNT: len,
    Aligner.ALIGN_SUM: math.fsum,
}


def _aligned(index: int, value: float, period: int, interval: Interval) -> Point:
    end = interval.end - index * period
    return Point(end, end, value)


def _distribute(series: TimeSeries, rate: bool, period: int, interval: Interval) -> TimeSeries:
    """Distribute each difference over its periods; a rate is over the time that has data."""
    amount: dict[int, float] = {}
    covered: dict[int, int] = {}
    for point in series.points:
        start, end = max(point.start, interval.start), min(point.end, interval.end)
        if start >= end:
            continue
        density = point.value / (point.end - point.start)
        for index in range((interval.end - end) // period, -(-(interval.end - start) // period)):
            upper = interval.end - index * period
            part = min(end, upper) - max(start, upper - period)
            if part > 0:
                amount[index] = amount.get(index, 0.0) + density * part
                covered[index] = covered.get(index, 0) + part
    order = sorted(amount, reverse=True)
    if rate:
        points = [_aligned(i, amount[i] / covered[i] * 1e9, period, interval) for i in order]
        unit = f"{series.unit}/s"
        return replace(series, kind=Kind.GAUGE, value_type=ValueType.DOUBLE, unit=unit, points=tuple(points))
    ends = [interval.end - i * period for i in order]
    spans = [Point(end - period, end, amount[i]) for end, i in zip(ends, order, strict=True)]
    return replace(series, points=tuple(spans))
