"""Alignment: one point for each period of a series. Times are in ns since the epoch.

`Aggregation.Aligner` of the Monitoring API defines which aligner accepts which kind of metric, and its
result. The API does not specify whether a standard deviation covers a sample or all values; here it covers
all values.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, pstdev

from google.cloud.monitoring_v3.types import common

from tui.emulator.monitoring.distribution import Distribution, merged
from tui.emulator.monitoring.series import Interval, Kind, SeriesPoint, TimeSeries, ValueType

Aligner = common.Aggregation.Aligner
SMOOTHING = 600 * 10**9
"""Window of the moving mean that `ALIGN_PERCENT_CHANGE` compares, in ns."""

_REDUCE: Mapping[int, Callable[[Sequence[float]], float]] = {
    Aligner.ALIGN_MIN: min,
    Aligner.ALIGN_MAX: max,
    Aligner.ALIGN_MEAN: fmean,
    Aligner.ALIGN_COUNT: len,
    Aligner.ALIGN_SUM: math.fsum,
    Aligner.ALIGN_STDDEV: pstdev,
}
_COUNTERS = (Aligner.ALIGN_DELTA, Aligner.ALIGN_RATE)
_GAUGES = (Aligner.ALIGN_INTERPOLATE, Aligner.ALIGN_NEXT_OLDER)
_BOOLEANS = (Aligner.ALIGN_COUNT_TRUE, Aligner.ALIGN_COUNT_FALSE, Aligner.ALIGN_FRACTION_TRUE)
_PERCENTS: Mapping[int, int] = {
    Aligner.ALIGN_PERCENTILE_99: 99,
    Aligner.ALIGN_PERCENTILE_95: 95,
    Aligner.ALIGN_PERCENTILE_50: 50,
    Aligner.ALIGN_PERCENTILE_05: 5,
}
_MERGING = (Aligner.ALIGN_DELTA, Aligner.ALIGN_SUM)
_VALUE_TYPES: Mapping[int, int] = {
    Aligner.ALIGN_MEAN: ValueType.DOUBLE,
    Aligner.ALIGN_STDDEV: ValueType.DOUBLE,
    Aligner.ALIGN_COUNT: ValueType.INT64,
}


class NotAligned(ValueError):
    """The aligner does not fit this series. The message names suitable aligners."""


def look_back(aligner: int, period: int) -> int:
    """Return how many ns of points before an interval an aligner takes into account."""
    return SMOOTHING + period if aligner == Aligner.ALIGN_PERCENT_CHANGE else period


def align(series: TimeSeries, aligner: int, period: int, interval: Interval) -> TimeSeries:
    """Align a series: one point for each period with data; the last period ends at the interval's end.

    Raises NotAligned for an aligner that does not match the series' kind or values.
    """
    _check(series, aligner)
    if series.value_type == ValueType.DISTRIBUTION:
        return _merge(series, aligner, period, interval)
    if aligner in _COUNTERS:
        return _distribute(series, aligner == Aligner.ALIGN_RATE, period, interval)
    if aligner == Aligner.ALIGN_INTERPOLATE:
        return _interpolate(series, period, interval)
    if aligner == Aligner.ALIGN_PERCENT_CHANGE:
        return _percent_change(series, period, interval)
    reduce = _REDUCE.get(aligner, lambda values: values[-1])
    groups: dict[int, list[float]] = {}
    for point in series.points:
        if interval.holds(point.end):
            groups.setdefault((interval.end - point.end) // period, []).append(point.value)
    points = [
        _aligned(index, reduce(values), period, interval) for index, values in sorted(groups.items())[::-1]
    ]
    return replace(
        series,
        kind=Kind.GAUGE,
        value_type=_VALUE_TYPES.get(aligner, series.value_type),
        unit="1" if aligner == Aligner.ALIGN_COUNT else series.unit,
        points=tuple(points),
    )


def _check(series: TimeSeries, aligner: int) -> None:
    if series.value_type == ValueType.DISTRIBUTION:
        _check_distribution(series, aligner)
        return
    any_kind = [*_REDUCE, Aligner.ALIGN_PERCENT_CHANGE]
    fitting = [*any_kind, *(_COUNTERS if series.kind == Kind.DELTA else _GAUGES)]
    if aligner in fitting:
        return
    known = ", ".join(Aligner(number).name for number in sorted(fitting))
    if aligner not in iter(Aligner):
        raise NotAligned(f"{aligner} must be an aligner; use one of {known}")
    kind = "a counter" if series.kind == Kind.DELTA else "a gauge"
    takes = "counters" if aligner in _COUNTERS else "gauges"
    takes = "booleans" if aligner in _BOOLEANS else "distributions" if aligner in _PERCENTS else takes
    kind = kind if takes in {"counters", "gauges"} else "a metric of numbers"
    raise NotAligned(
        f"{Aligner(aligner).name} requires {takes}, but {series.metric_type} is {kind}; use one of {known}"
    )


def _check_distribution(series: TimeSeries, aligner: int) -> None:
    fitting = [*_PERCENTS, *_MERGING]
    if aligner not in fitting:
        known = ", ".join(Aligner(number).name for number in sorted(fitting))
        name = Aligner(aligner).name if aligner in iter(Aligner) else str(aligner)
        raise NotAligned(
            f"{name} requires numbers, but {series.metric_type} has distributions; use one of {known}"
        )


def _merge(series: TimeSeries, aligner: int, period: int, interval: Interval) -> TimeSeries:
    """Merge the distributions of each period, or take a percentile of the merged distribution."""
    groups: dict[int, list[Distribution]] = {}
    for point in series.points:
        if interval.holds(point.end) and point.distribution is not None:
            groups.setdefault((interval.end - point.end) // period, []).append(point.distribution)
    points = []
    for index in sorted(groups, reverse=True):
        distribution, end = merged(groups[index]), interval.end - index * period
        if aligner in _PERCENTS:
            points.append(SeriesPoint(end, end, distribution.percentile(_PERCENTS[aligner])))
        else:
            points.append(SeriesPoint(end - period, end, 0.0, distribution))
    if aligner in _PERCENTS:
        return replace(series, kind=Kind.GAUGE, value_type=ValueType.DOUBLE, points=tuple(points))
    return replace(series, points=tuple(points))


def _aligned(index: int, value: float, period: int, interval: Interval) -> SeriesPoint:
    end = interval.end - index * period
    return SeriesPoint(end, end, value)


def _distribute(series: TimeSeries, rate: bool, period: int, interval: Interval) -> TimeSeries:
    """Distribute each difference over its periods; a rate refers to the time that has data."""
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
    spans = [SeriesPoint(end - period, end, amount[i]) for end, i in zip(ends, order, strict=True)]
    return replace(series, points=tuple(spans))


def _boundaries(period: int, interval: Interval) -> range:
    count = max(1, -(-(interval.end - interval.start) // period))
    return range(interval.end - (count - 1) * period, interval.end + 1, period)


def _interpolate(series: TimeSeries, period: int, interval: Interval) -> TimeSeries:
    """Interpolate the value at the end of each period between the points before and after it."""
    ends = [point.end for point in series.points]
    points = []
    for at in _boundaries(period, interval):
        after = bisect_left(ends, at)
        if after == len(ends) or (ends[after] != at and not after):
            continue
        value = series.points[after].value
        if ends[after] != at:
            before = series.points[after - 1]
            part = (at - before.end) / (ends[after] - before.end)
            value = before.value + part * (value - before.value)
        points.append(SeriesPoint(at, at, value))
    return replace(series, points=tuple(points))


def _percent_change(series: TimeSeries, period: int, interval: Interval) -> TimeSeries:
    """Compute the percentage by which the moving mean of ten minutes changed within each period."""
    present = [point for point in series.points if point.value >= 0]
    ends = [point.end for point in present]

    def mean(at: int) -> float | None:
        values = [p.value for p in present[bisect_right(ends, at - SMOOTHING) : bisect_right(ends, at)]]
        return fmean(values) if values else None

    points = []
    for at in _boundaries(period, interval):
        current, previous = mean(at), mean(at - period)
        if current is None or previous is None:
            continue
        if previous:
            points.append(SeriesPoint(at, at, (current - previous) / previous * 100))
        else:
            points.append(SeriesPoint(at, at, math.inf if current else 0.0))
    return replace(series, kind=Kind.GAUGE, value_type=ValueType.DOUBLE, unit="%", points=tuple(points))
