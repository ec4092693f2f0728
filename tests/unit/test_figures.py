"""Figures of a program are in range or not measured, whatever it prints."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.progress_dialects_support import log_entry
from tui.domain.core.figures import LARGEST, MOST_STEPS, count, figure, finite, later
from tui.domain.core.training_progress import NO_PROGRESS, advance, training_step
from tui.domain.progress.job_progress import JobProgress
from tui.widgets.plot.chart import ChartLine, finite_part
from tui.widgets.plot.sparkline import sparkline

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
numbers = st.one_of(st.integers(), st.floats(), st.sampled_from([10**400, -(10**400), 1e308, 5e-324, 1e17]))
values = st.one_of(
    numbers, st.booleans(), st.none(), st.text(max_size=3), st.lists(st.integers(), max_size=1)
)
fields = st.dictionaries(
    st.sampled_from(["step", "total_steps", "loss", "tokens_per_second", "learning_rate", "grad_norm"]),
    values,
)


@example(10**400)
@example(True)
@given(values)
def test_a_figure_is_in_range_or_none(value: Any) -> None:
    found = figure(value)
    assert found is None or abs(found) <= LARGEST or not math.isfinite(found)
    assert finite(value) is None or abs(finite(value) or 0) <= LARGEST
    steps = count(value)
    assert steps is None or (0 <= steps <= MOST_STEPS and steps == value)
    assert figure(value) is None or not isinstance(value, bool)


@given(fields)
def test_a_structured_step_has_figures_in_range(of_step: dict[str, Any]) -> None:
    payload = {"vxtui": {"kind": "step", **of_step}}
    step = training_step(NOON, payload)
    progress = advance(NO_PROGRESS, NOON, payload)
    if step is None:
        assert progress == NO_PROGRESS
        return
    assert 0 <= step.step <= MOST_STEPS
    assert step.speed is None or math.isfinite(step.speed)
    assert all(abs(value) <= LARGEST for _, value in step.numbers)
    assert progress.fraction is None or 0 <= progress.fraction <= 1


@example("step 99999999999999991611392/1 loss 0.1")
@example(f"step 7 loss {'9' * 300}")
@example("{'loss': 1e400, 'step': 100000000000000000000}")
@given(
    st.from_regex(r"\A(step|loss|lr)[ =:]{1,2}-?[0-9]{1,40}(e[0-9]{1,3})?/?[0-9]{0,30} loss [0-9.]{1,50}\Z")
)
def test_a_line_has_figures_in_range(text: str) -> None:
    reader = JobProgress()
    for step in reader.add(log_entry(text)):
        assert 0 <= step.step <= MOST_STEPS
        assert step.loss is None or abs(step.loss) <= LARGEST or not math.isfinite(step.loss)


@given(st.lists(st.one_of(st.none(), st.floats())))
def test_a_sparkline_bears_every_float(series: list[float | None]) -> None:
    assert len(sparkline(series, high=None)) == len(series)


@given(st.lists(st.floats()))
def test_a_chart_draws_what_is_finite(y: list[float]) -> None:
    drawn = finite_part(ChartLine("", tuple(map(float, range(len(y)))), tuple(y), "red"))
    assert len(drawn.x) == len(drawn.y) == sum(map(math.isfinite, y))


def test_there_is_a_last_moment() -> None:
    assert later(NOON, timedelta(seconds=1)) == NOON + timedelta(seconds=1)
    assert later(datetime.max.replace(tzinfo=UTC), timedelta(seconds=1)) is None
