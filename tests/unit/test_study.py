"""The study of a tuning job: which trial is the best, the best so far, and what the parameters matter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.domain.core.states import JobState
from tui.domain.core.task import Task
from tui.domain.tuning.study import (
    Metric,
    Study,
    StudyParameter,
    best,
    best_so_far,
    by_goal,
    numbers_of,
    value_of,
)
from tui.store.importance import NotEnough, compute, importance

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)
LOSS, SCORE = Study((Metric("loss", False),)), Study((Metric("score", True),))


def trial(
    number: int, value: float | None, state: JobState = JobState.SUCCEEDED, **parameters: object
) -> Task:
    metrics = {} if value is None else {"loss": value, "score": value}
    ended = NOON + timedelta(minutes=number) if state.terminal else None
    return Task(str(number), state, parameters=parameters, metrics=metrics, start_time=NOON, end_time=ended)


def test_the_best_has_ended_and_fits_the_goal() -> None:
    trials = [
        trial(1, 3.0), trial(2, 1.0, JobState.RUNNING), trial(3, 2.0), trial(4, 0.5, JobState.FAILED),
        trial(5, None),
    ]  # fmt: skip
    winner = best(trials, LOSS)
    assert winner is not None and winner.id == "3"
    # What has failed never leads; what has no value comes last.
    assert [each.id for each in by_goal(trials, LOSS)] == ["2", "3", "1", "4", "5"]
    assert [each.id for each in by_goal(trials, SCORE)] == ["1", "3", "2", "4", "5"]
    assert best([], LOSS) is None and best([trial(1, float("nan"))], LOSS) is None


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), max_size=30), st.booleans())
def test_the_best_so_far_only_gets_better(values: list[float], maximize: bool) -> None:
    study = SCORE if maximize else LOSS
    found = best_so_far([trial(at, value) for at, value in enumerate(values, 1)], study)
    assert [number for number, _, _ in found] == list(range(1, len(values) + 1))
    assert [value for _, value, _ in found] == values
    better = max if maximize else min
    assert [yet for _, _, yet in found] == [better(values[: at + 1]) for at in range(len(values))]
    winner = best([trial(at, value) for at, value in enumerate(values, 1)], study)
    assert (winner is None) == (not values)
    assert winner is None or value_of(winner, study) == found[-1][2]


def test_a_choice_is_a_position_and_a_number_itself() -> None:
    trials = [trial(1, 1.0, kind="b", lr=0.5), trial(2, 1.0, kind="z")]
    assert numbers_of(trials, StudyParameter("kind", "categorical", values=("a", "b"))) == [1.0, None]
    assert numbers_of(trials, StudyParameter("lr", "double", 0, 1)) == [0.5, None]


def test_the_parameter_that_decides_matters_most() -> None:
    values = [at / 40 for at in range(40)]
    request = {
        "maximize": False,
        "results": [(value - 0.3) ** 2 for value in values],
        "parameters": {
            "lr": {"values": values, "choices": 0, "log": False},
            "noise": {"values": [float((at * 7) % 11) for at in range(40)], "choices": 0, "log": False},
        },
    }
    found = compute(request)
    assert list(found) == ["lr", "noise"] and found["lr"] > 0.8
    assert sum(found.values()) == pytest.approx(1)


async def test_importance_is_computed_by_a_process_of_its_own() -> None:
    study = Study((Metric("loss", False),), (StudyParameter("lr", "double", 0.001, 1, log=True),))
    trials = [trial(at, at / 10, lr=at / 10) for at in range(1, 10)]
    assert await importance(study, trials) == {"lr": 1.0}
    with pytest.raises(NotEnough, match="4 trials"):
        await importance(study, trials[:2])
    with pytest.raises(NotEnough, match="differs"):
        await importance(study, [trial(at, at / 10, lr=0.1) for at in range(1, 10)])
