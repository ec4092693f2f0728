"""Aligners and reducers: what each makes of known points, and what it is refused for."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.emulator.monitoring.alignment import Aligner, NotAligned, align
from tui.emulator.monitoring.reduction import NotReduced, Reducer, check_reducer, group_field, reduce
from tui.emulator.monitoring.series import Interval, Kind, SeriesPoint, TimeSeries, ValueType

MINUTE = 60 * 10**9
SPAN = Interval(0, 4 * MINUTE)


def series(
    *points: tuple[float, float], replica: str = "a", kind: int = Kind.GAUGE, **labels: str
) -> TimeSeries:
    """Points of (minutes, value)."""
    found = tuple(SeriesPoint(round(at * MINUTE), round(at * MINUTE), value) for at, value in points)
    resource = {"project_id": "p", "job_id": "1", **labels}
    return TimeSeries("t", "r", kind, ValueType.DOUBLE, "1", {"replica_id": replica}, resource, found)


def values(aligned: TimeSeries) -> list[tuple[float, float]]:
    return [(point.end / MINUTE, point.value) for point in aligned.points]


GAUGE = series((0.25, 2), (0.75, 4), (1.5, 7), (3.5, -1), (4, 5))
EACH = [
    ("MIN", [(1, 2), (2, 7), (4, -1)]),
    ("MAX", [(1, 4), (2, 7), (4, 5)]),
    ("MEAN", [(1, 3), (2, 7), (4, 2)]),
    ("SUM", [(1, 6), (2, 7), (4, 4)]),
    ("COUNT", [(1, 2), (2, 1), (4, 2)]),
    ("STDDEV", [(1, 1), (2, 0), (4, 3)]),
    ("NEXT_OLDER", [(1, 4), (2, 7), (4, 5)]),
    # On the lines from 4 to 7, from 7 to -1 twice, and at a point itself.
    ("INTERPOLATE", [(1, 5), (2, 5), (3, 1), (4, 5)]),
]


@pytest.mark.parametrize(("name", "expected"), EACH)
def test_each_aligner_of_a_gauge(name: str, expected: list[tuple[float, float]]) -> None:
    assert values(align(GAUGE, Aligner[f"ALIGN_{name}"], MINUTE, SPAN)) == expected


def test_a_percentage_is_of_the_moving_mean_of_ten_minutes() -> None:
    grows = series(*((minute, 1 if minute <= 10 else 3) for minute in range(21)))
    found = values(align(grows, Aligner.ALIGN_PERCENT_CHANGE, 10 * MINUTE, Interval(0, 20 * MINUTE)))
    assert found == [(10, 0), (20, 200)]
    from_zero = series((5, 0), (15, 0), (25, 2))
    found = values(align(from_zero, Aligner.ALIGN_PERCENT_CHANGE, 10 * MINUTE, Interval(0, 30 * MINUTE)))
    assert found == [(20, 0), (30, math.inf)]
    # What is below zero counts as missing.
    assert not align(series((1, -1), (15, -2)), Aligner.ALIGN_PERCENT_CHANGE, MINUTE, SPAN).points


@pytest.mark.parametrize(
    ("aligner", "kind", "says"),
    [
        (
            "ALIGN_RATE",
            Kind.GAUGE,
            "ALIGN_RATE requires counters, but t is a gauge; use one of ALIGN_INTERPOLATE",
        ),
        ("ALIGN_NEXT_OLDER", Kind.DELTA, "ALIGN_NEXT_OLDER requires gauges, but t is a counter"),
        ("ALIGN_PERCENTILE_99", Kind.GAUGE, "requires distributions, but t is a metric of numbers"),
        ("ALIGN_COUNT_TRUE", Kind.DELTA, "requires booleans, but t is a metric of numbers"),
    ],
)
def test_an_aligner_that_does_not_fit_is_refused(aligner: str, kind: int, says: str) -> None:
    with pytest.raises(NotAligned, match=says):
        align(series((1, 1), kind=kind), Aligner[aligner], MINUTE, SPAN)
    with pytest.raises(NotAligned, match="99 must be an aligner"):
        align(GAUGE, 99, MINUTE, SPAN)


A = series((1, 2), (2, 4), replica="a")
B = series((1, 6), (2, 8), (3, 5), replica="b")
C = series((1, 1), replica="a", job_id="2")


def test_series_are_combined_by_the_values_of_the_fields() -> None:
    (all_of_them,) = reduce([A, B, C], Reducer.REDUCE_SUM, [])
    assert values(all_of_them) == [(1, 9), (2, 12), (3, 5)]
    assert (all_of_them.metric_labels, all_of_them.resource_labels) == ({}, {"project_id": "p"})
    by_job = reduce([A, B, C], Reducer.REDUCE_MEAN, [group_field("resource.labels.job_id")])
    assert [values(one) for one in by_job] == [[(1, 4), (2, 6), (3, 5)], [(1, 1)]]
    assert [one.resource_labels["job_id"] for one in by_job] == ["1", "2"]
    by_replica = reduce([A, B, C], Reducer.REDUCE_MAX, [group_field("metric.label.replica_id")])
    assert [one.metric_labels for one in by_replica] == [{"replica_id": "a"}, {"replica_id": "b"}]


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=9))
def test_each_reducer_over_any_values(given_values: list[float]) -> None:
    found = [series((1, value), replica=str(number)) for number, value in enumerate(given_values)]

    def reduced(name: str) -> TimeSeries:
        (one,) = reduce(found, Reducer[f"REDUCE_{name}"], [])
        return one

    def value(name: str) -> float:
        return reduced(name).points[0].value

    assert (value("MIN"), value("MAX")) == (min(given_values), max(given_values))
    assert value("MEAN") == fmean(given_values) and value("STDDEV") == pstdev(given_values)
    assert value("SUM") == math.fsum(given_values)
    assert (value("COUNT"), reduced("COUNT").value_type) == (len(given_values), ValueType.INT64)
    order = [value(f"PERCENTILE_{percent}") for percent in ("05", "50", "95", "99")]
    assert min(given_values) <= order[0] and order[-1] <= max(given_values)
    # Interpolation rounds: 1e9 has steps of 1e-7.
    assert all(low <= high + 1e-6 for low, high in pairwise(order))


def test_the_median_is_between_the_two_in_the_middle() -> None:
    (one,) = reduce([A, B], Reducer.REDUCE_PERCENTILE_50, [])
    assert values(one) == [(1, 4), (2, 6), (3, 5)]


@pytest.mark.parametrize("text", ["", "job_id", "metric", "metric.labels", "metadata.x", "resource.x.y"])
def test_a_field_that_nothing_can_be_grouped_by_is_named(text: str) -> None:
    with pytest.raises(NotReduced, match=r"can't be used for grouping; use metric\.labels\.NAME"):
        group_field(text)


def test_a_reducer_of_booleans_is_refused() -> None:
    with pytest.raises(NotReduced, match="REDUCE_FRACTION_TRUE requires booleans"):
        check_reducer(Reducer.REDUCE_FRACTION_TRUE)
    with pytest.raises(NotReduced, match="77 must be a reducer"):
        check_reducer(77)
