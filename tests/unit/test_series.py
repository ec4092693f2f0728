"""Alignment against the rules written down once more, over random samples."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.emulator.logging.stream import line_times
from tui.emulator.monitoring.alignment import Aligner, align
from tui.emulator.monitoring.series import (
    Interval,
    Kind,
    SeriesPoint,
    TimeSeries,
    ValueType,
    differences,
    gauge,
)

SECOND = 10**9
SAMPLES = st.lists(
    st.tuples(st.integers(0, 400), st.floats(0, 1e9)), max_size=30, unique_by=lambda s: s[0]
).map(lambda found: [(at * SECOND, value) for at, value in sorted(found)])


def counter(points: list[SeriesPoint]) -> TimeSeries:
    return TimeSeries("t", "r", Kind.DELTA, ValueType.INT64, "By", points=tuple(points))


@given(SAMPLES, st.integers(1, 90), st.integers(0, 100))
def test_rates_times_time_give_back_what_was_counted(
    samples: list[tuple[int, float]], period: int, start: int
) -> None:
    total = 0.0
    counted = []
    for at, value in samples:
        total += value
        counted.append((at, total))
    interval = Interval(start * SECOND, 300 * SECOND)
    series = counter(differences(counted))
    delta = align(series, Aligner.ALIGN_DELTA, period * SECOND, interval)
    inside = sum(
        p.value * max(0, min(p.end, interval.end) - max(p.start, interval.start)) / (p.end - p.start)
        for p in series.points
    )
    assert math.isclose(sum(p.value for p in delta.points), inside, rel_tol=1e-6, abs_tol=1e-3)
    rate = align(series, Aligner.ALIGN_RATE, period * SECOND, interval)
    assert [p.end for p in rate.points] == [p.end for p in delta.points]
    assert all((interval.end - p.end) % (period * SECOND) == 0 for p in rate.points)
    highest = max((p.value / (p.end - p.start) * 1e9 for p in series.points), default=0)
    assert all(p.value <= highest * (1 + 1e-9) + 1e-9 for p in rate.points)


@given(SAMPLES, st.integers(1, 90))
def test_periods_hold_each_sample_once(samples: list[tuple[int, float]], period: int) -> None:
    interval = Interval(50 * SECOND, 350 * SECOND)
    series = TimeSeries("t", "r", Kind.GAUGE, ValueType.DOUBLE, "1", points=tuple(gauge(samples)))
    inside = [value for at, value in samples if interval.start < at <= interval.end]
    count = align(series, Aligner.ALIGN_COUNT, period * SECOND, interval)
    assert sum(p.value for p in count.points) == len(inside)
    highest = align(series, Aligner.ALIGN_MAX, period * SECOND, interval)
    assert max((p.value for p in highest.points), default=None) == max(inside, default=None)
    assert [p.end for p in highest.points] == sorted(p.end for p in highest.points)


def test_what_is_not_a_number_was_not_measured() -> None:
    assert [p.value for p in gauge([(1, math.nan), (2, 0.5), (3, math.inf)])] == [0.5]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.none() | st.integers(0, 60)), min_size=1, max_size=30),
    st.integers(0, 30),
)
def test_lines_keep_their_order_and_their_own_times(lines: list[tuple[int, int | None]], last: int) -> None:
    bounds = sorted(bound * SECOND for bound, _ in lines)
    owns = [None if own is None else own * SECOND for _, own in lines]
    times, after = line_times(bounds, owns, last * SECOND)
    assert all(at == own for at, own in zip(times, owns, strict=True) if own is not None)
    plain = [at for at, own in zip(times, owns, strict=True) if own is None]
    assert plain == sorted(set(plain)) and after >= max(plain, default=0)
    assert all(at > last * SECOND for at in plain)


@pytest.mark.parametrize(
    ("bounds", "owns", "expected"),
    [
        ([100, 100, 100], [None, None, None], [100_000_000, 100_001_000, 100_002_000]),
        # A plain line before one that says 60 ms was written before that, whenever the stamp was taken.
        ([100, 100, 100], [None, 60, None], [59_999_000, 60_000_000, 100_000_000]),
        # A clock that runs ahead keeps its own line's time and moves nobody else's.
        ([100, 100], [500, None], [500_000_000, 100_001_000]),
        # A time from before the line can have been written is the program's statement about something else.
        ([9_000, 9_000, 9_000], [None, 2_000, None], [8_999_998_000, 2_000_000_000, 9_000_000_000]),
        ([5_000, 9_000, 9_000], [None, None, 3_000], [5_000_000_000, 8_999_999_000, 3_000_000_000]),
        # Output that a program kept in its buffer since the stamp before has the times of its lines.
        ([5_000, 9_000, 9_000], [None, None, 5_500], [5_000_000_000, 5_499_999_000, 5_500_000_000]),
    ],
)
def test_times_of_lines(bounds: list[int], owns: list[int | None], expected: list[int]) -> None:
    ms = 1_000_000
    before = 4_000 * ms if bounds[0] > 4_000 else 0
    times, _ = line_times([b * ms for b in bounds], [None if o is None else o * ms for o in owns], 0, before)
    assert times == expected
