"""Reduction: aligned series combined into one per group.

`Aggregation.Reducer` of the Monitoring API defines which reducer accepts which values, and its result. Its
interpolation of percentiles is not documented; here it is linear.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, pstdev

from google.cloud.monitoring_v3.types import common

from tui.emulator.monitoring.series import Kind, SeriesPoint, TimeSeries, ValueType

Reducer = common.Aggregation.Reducer
KEPT = "project_id"
"""Resource label that a reduced series retains, because the label never differs within a response."""


class NotReduced(ValueError):
    """The reducer or a group field can't be used. The message names usable values."""


def _percentile(percent: int) -> Callable[[Sequence[float]], float]:
    def reduce(values: Sequence[float]) -> float:
        ordered = sorted(values)
        at = (len(ordered) - 1) * percent / 100
        low, part = int(at), at % 1
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * part

    return reduce


_REDUCE: Mapping[int, Callable[[Sequence[float]], float]] = {
    Reducer.REDUCE_MEAN: fmean,
    Reducer.REDUCE_MIN: min,
    Reducer.REDUCE_MAX: max,
    Reducer.REDUCE_SUM: math.fsum,
    Reducer.REDUCE_STDDEV: pstdev,
    Reducer.REDUCE_COUNT: len,
    Reducer.REDUCE_PERCENTILE_99: _percentile(99),
    Reducer.REDUCE_PERCENTILE_95: _percentile(95),
    Reducer.REDUCE_PERCENTILE_50: _percentile(50),
    Reducer.REDUCE_PERCENTILE_05: _percentile(5),
}
_BOOLEANS = (Reducer.REDUCE_COUNT_TRUE, Reducer.REDUCE_COUNT_FALSE, Reducer.REDUCE_FRACTION_TRUE)
_SAME_TYPE = (Reducer.REDUCE_MIN, Reducer.REDUCE_MAX, Reducer.REDUCE_SUM)


def check_reducer(reducer: int) -> None:
    """Raise NotReduced for a reducer that no metric of this service accepts."""
    if reducer in _REDUCE:
        return
    known = ", ".join(Reducer(number).name for number in sorted(_REDUCE))
    if reducer in _BOOLEANS:
        raise NotReduced(
            f"{Reducer(reducer).name} requires booleans, but the metrics are numbers; use {known}"
        )
    raise NotReduced(f"{reducer} must be a reducer; use one of {known}")


def group_field(text: str) -> tuple[str, str]:
    """Parse a group-by field to (`metric` or `resource`, label name); `type` has no label name.

    Raises NotReduced for any other text.
    """
    whose, _, rest = text.partition(".")
    part, _, name = rest.partition(".")
    if whose in {"metric", "resource"} and part in {"label", "labels"} and name:
        return whose, name.strip('"')
    if text in {"metric.type", "resource.type"}:
        return whose, ""
    if text == "project":
        return "resource", KEPT
    known = "metric.labels.NAME, resource.labels.NAME, resource.type or project"
    raise NotReduced(f"{text!r} can't be used for grouping; use {known}")


def reduce(
    aligned: Iterable[TimeSeries], reducer: int, fields: Sequence[tuple[str, str]]
) -> list[TimeSeries]:
    """Combine the series of each combination of the fields' values; a point combines the points with the same
    end time."""
    groups: dict[tuple[str | None, ...], list[TimeSeries]] = {}
    for series in aligned:
        labels = {"metric": series.metric_labels, "resource": series.resource_labels}
        values = (labels[whose].get(name) for whose, name in fields if name)
        groups.setdefault((series.resource_type, *values), []).append(series)
    return [_reduced(group, reducer, fields) for group in groups.values()]


def _reduced(group: Sequence[TimeSeries], reducer: int, fields: Sequence[tuple[str, str]]) -> TimeSeries:
    first = group[0]
    if first.value_type == ValueType.DISTRIBUTION:
        raise NotReduced(
            f"{Reducer(reducer).name} requires numbers, but {first.metric_type} has distributions; "
            "align them with a percentile first"
        )
    values: dict[int, list[float]] = {}
    starts: dict[int, int] = {}
    for series in group:
        for point in series.points:
            values.setdefault(point.end, []).append(point.value)
            starts[point.end] = min(point.start, starts.get(point.end, point.start))
    value_type, kind = int(ValueType.DOUBLE), int(Kind.GAUGE)
    if reducer in _SAME_TYPE or reducer == Reducer.REDUCE_MEAN:
        kind = first.kind
    if reducer in _SAME_TYPE:
        value_type = first.value_type
    if reducer == Reducer.REDUCE_COUNT:
        value_type = int(ValueType.INT64)
    kept = {("resource", KEPT), *fields}
    combine = _REDUCE[reducer]
    return TimeSeries(
        first.metric_type,
        first.resource_type,
        kind,
        value_type,
        "1" if reducer == Reducer.REDUCE_COUNT else first.unit,
        {name: value for name, value in first.metric_labels.items() if ("metric", name) in kept},
        {name: value for name, value in first.resource_labels.items() if ("resource", name) in kept},
        tuple(
            SeriesPoint(starts[end] if kind == Kind.DELTA else end, end, combine(values[end]))
            for end in sorted(values)
        ),
    )
