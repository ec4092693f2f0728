"""A curve as text."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from tui.widgets.plot.curve import curve


def test_a_falling_curve_runs_from_the_top_left_to_the_bottom_right() -> None:
    lines = curve([5.0, 4.0, 3.0, 2.0, 1.0, 0.0], 6, 3)
    assert len(lines) == 3 and all(len(line) == 6 for line in lines)
    assert lines[0].strip() == lines[0].rstrip() and lines[2].lstrip() == lines[2].strip()
    assert lines[0][0] != " " and lines[2][-1] != " " and lines[0][-1] == " " == lines[2][0]
    assert set("".join(curve([5.0, 4.0, 3.0, 2.0, 1.0, 0.0], 6, 3, ascii_only=True))) == {" ", "*"}


def test_few_values_have_no_curve_and_a_constant_has_a_level_one() -> None:
    assert curve([1.0, 2.0], 10, 3) == [] == curve([], 10, 3)
    assert sum(bool(line.strip()) for line in curve([2.0] * 50, 10, 3)) == 1
    assert curve([90.0, 100.0] * 20, 20, 4, low=0.0)[3].strip() == ""


@given(st.lists(st.floats(), max_size=300), st.integers(1, 60), st.integers(1, 8), st.booleans())
def test_any_values_fill_the_room(values: list[float], width: int, height: int, ascii_only: bool) -> None:
    lines = curve(values, width, height, ascii_only=ascii_only)
    if sum(map(math.isfinite, values)) > 5:
        assert len(lines) in {0, height}
    assert all(len(line) == width for line in lines)
    # Every column has a dot.
    assert all(any(line[x] != " " for line in lines) for x in range(width) if lines)
