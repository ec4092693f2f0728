"""Thinning and ticks of the plots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from tui.domain.core.formatting import figure
from tui.screens.job.training_charts import clock_text
from tui.widgets.plot.chart import LABEL, axis_label, distinct_ticks, downsample, nice_ticks
from tui.widgets.plot.view_range import ViewRange, value_at


def label(value: float) -> str:
    return axis_label(figure(value))


numbers = st.floats(-1e9, 1e9, allow_nan=False)


@settings(max_examples=100)
@given(st.lists(numbers, min_size=1, max_size=2000), st.sampled_from([10, 100, 400]))
def test_thinning_keeps_the_ends_and_the_extremes(values: list[float], most: int) -> None:
    x, y = downsample([float(n) for n in range(len(values))], values, most)
    assert len(x) == len(y) <= most + 2
    assert (y[0], y[-1]) == (values[0], values[-1])
    assert (min(y), max(y)) == (min(values), max(values))
    assert x == sorted(x)


@settings(max_examples=200)
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


@settings(max_examples=200)
@given(numbers, st.floats(1e-12, 1e9), st.integers(2, 8))
def test_no_two_ticks_have_the_same_label_and_none_is_cut(low: float, width: float, most: int) -> None:
    labels = [label(tick) for tick in distinct_ticks(low, low + width, most, label)]
    assert len(set(labels)) == len(labels) <= most
    assert all(len(each) <= LABEL for each in labels)


@settings(max_examples=200)
@given(st.floats(0, 1e7), st.floats(0.01, 1e7), st.integers(2, 8))
def test_an_axis_of_steps_has_whole_steps_only(low: float, width: float, most: int) -> None:
    ticks_of = partial(nice_ticks, whole=True)
    ticks = distinct_ticks(low, low + width, most, "{:,.0f}".format, ticks_of)
    assert all(tick.is_integer() for tick in ticks) and len(ticks) <= most
    assert distinct_ticks(0, 10, 5, "{:,.0f}".format, ticks_of) == [0, 5, 10]
    assert distinct_ticks(1, 3, 8, "{:,.0f}".format, ticks_of) == [1, 2, 3]


def test_as_many_ticks_as_the_labels_tell_apart() -> None:
    assert distinct_ticks(2.31, 5.7, 5, label) == [3, 4, 5]
    labels = [label(tick) for tick in distinct_ticks(0.00026, 0.00028, 5, label)]
    assert labels == ["0.00026", "0.00027", "0.00028"]
    assert axis_label("-1.23e-05") == "-1.2e-5" and axis_label("12.5 GiB") == "12.5 GiB"


def test_times_tell_neighbouring_ticks_apart() -> None:
    assert [clock_text(x) for x in (0, 40, 540, 570, 3600, 18_120, 172_800, 194_400, -30)] == [
        "0", "40s", "9m", "9m30", "1h00", "5h02", "2d", "2d06h", "-30s",
    ]  # fmt: skip


@st.composite
def _steps(draw: st.DrawFn) -> list[str]:
    return draw(st.lists(st.sampled_from(["in", "out", "left", "right", "earlier", "later"]), max_size=30))


@settings(max_examples=200)
@given(st.floats(0, 1e6), st.floats(10, 1e6), _steps())
def test_a_view_never_leaves_what_there_is(low: float, wide: float, steps: list[str]) -> None:
    full = (low, low + wide)
    view = ViewRange()
    does: dict[str, Callable[[ViewRange], ViewRange]] = {
        "in": lambda v: v.zoom(full, 0.5),
        "out": lambda v: v.zoom(full, 2),
        "left": lambda v: v.move(full, -0.3),
        "right": lambda v: v.move(full, 0.3),
        "earlier": lambda v: v.pan(full, -0.5),
        "later": lambda v: v.pan(full, 0.5),
    }
    slack = full[1] * 1e-9
    for step in steps:
        view = does[step](view)
        first, last = view.window(full)
        assert full[0] - slack <= first < last <= full[1] + slack
        if step in {"left", "right"}:
            assert view.cross is not None and first - slack <= view.cross <= last + slack


def test_zoom_keeps_the_crosshair_in_its_place_and_the_newest_in_sight() -> None:
    full = (0.0, 1000.0)
    view = replace(ViewRange(), cross=400.0).zoom(full, 0.5)
    assert view.window(full) == (200.0, 700.0)
    assert view.zoom(full, 2) == ViewRange(cross=400.0)
    live = ViewRange().zoom(full, 0.5)
    assert (live.window(full), live.window((0.0, 1100.0))) == ((500.0, 1000.0), (600.0, 1100.0))
    still = live.pan(full, -0.5)
    assert still.window((0.0, 1100.0)) == still.window(full) == (250.0, 750.0)


def test_a_value_is_only_taken_where_there_is_one() -> None:
    x, y = (0.0, 10.0, 90.0), (1.0, 2.0, 3.0)
    assert value_at(x, y, 8.0, (0.0, 100.0)) == 2.0
    assert value_at(x, y, 50.0, (0.0, 100.0)) is None
    assert value_at((), (), 50.0, (0.0, 100.0)) is None
