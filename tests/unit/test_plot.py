"""Thinning and ticks of the plots."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tui.widgets.plot import nice_ticks, thin

numbers = st.floats(-1e9, 1e9, allow_nan=False)


@settings(deadline=None, max_examples=100)
@given(st.lists(numbers, min_size=1, max_size=2000), st.sampled_from([10, 100, 400]))
def test_thinning_keeps_the_ends_and_the_extremes(values: list[float], most: int) -> None:
    x, y = thin([float(n) for n in range(len(values))], values, most)
    assert len(x) == len(y) <= most + 2
    assert (y[0], y[-1]) == (values[0], values[-1])
    assert (min(y), max(y)) == (min(values), max(values))
    assert x == sorted(x)


@settings(deadline=None, max_examples=200)
@given(numbers, st.floats(1e-6, 1e9), st.integers(2, 8), st.booleans())
def test_ticks_are_few_and_within(low: float, width: float, most: int, time: bool) -> None:
    high = low + width
    ticks = nice_ticks(low, high, most, time=time)
    slack = (high - low) * 1e-6 + abs(low) * 1e-9
    assert len(ticks) <= most
    assert all(low - slack <= tick <= high + slack for tick in ticks)


def test_ticks_are_round() -> None:
    assert nice_ticks(2.31, 5.7, 5) == [3, 4, 5]
    assert nice_ticks(1, 98, 4) == [20, 40, 60, 80]
    assert nice_ticks(0, 75, 4, time=True) == [0, 30, 60]
    assert nice_ticks(5, 5, 4) == [5]
