"""Training steps of a run that went back to a checkpoint: which count, which are lost, and the time left."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tui.domain.core.training_progress import TrainingStep
from tui.domain.training.training_steps import History, history, remaining

START = datetime(2026, 11, 21, tzinfo=UTC)


def run(*steps: int, every: float = 2.0, begin: float = 0.0) -> list[TrainingStep]:
    """A line for each of these steps."""
    return [TrainingStep(START + timedelta(seconds=begin + n * every), step) for n, step in enumerate(steps)]


def numbers(samples: Sequence[TrainingStep]) -> list[int]:
    return [sample.step for sample in samples]


def test_a_run_that_never_went_back_is_all_kept() -> None:
    samples = run(1, 2, 3, 5, 8)
    assert history(samples) == History(tuple(samples))
    assert history([]) == History()


def test_what_the_run_went_back_over_is_told_apart() -> None:
    found = history(run(1, 2, 3, 4, 5, 3, 4))
    assert numbers(found.kept) == [1, 2, 3, 4]
    assert [numbers(stretch) for stretch in found.undone] == [[3, 4, 5]]
    again = history(run(10, 20, 30, 40, 25, 35, 5, 15))
    assert numbers(again.kept) == [5, 15]
    assert [numbers(stretch) for stretch in again.undone] == [[30, 40], [10, 20, 25, 35]]


def test_a_step_that_is_said_twice_was_not_done_twice() -> None:
    found = history(run(1, 2, 2, 3))
    assert numbers(found.kept) == [1, 2, 3] and not found.undone
    assert found.kept[1].timestamp == START + timedelta(seconds=4)


@given(st.lists(st.integers(0, 30), max_size=40))
def test_kept_steps_rise_and_nothing_is_made_up(steps: list[int]) -> None:
    samples = run(*steps)
    found = history(samples)
    assert numbers(found.kept) == sorted(set(numbers(found.kept)))
    assert list(found.kept[-1:]) == samples[-1:]
    times = [sample.timestamp for sample in found.kept]
    assert times == sorted(times)
    said = [*found.kept, *(sample for stretch in found.undone for sample in stretch)]
    assert len(said) == len(set(said)) and set(said) <= set(samples)
    assert all(numbers(stretch) == sorted(numbers(stretch)) for stretch in found.undone)


def test_the_rest_is_reckoned_from_the_recent_pace() -> None:
    samples = run(*range(100))
    assert remaining(samples, 199) == timedelta(seconds=200)
    assert remaining(samples[:1], 199) is None and remaining(samples, None) is None
    assert remaining(run(9, 9, 9), 100) is None


def test_going_back_costs_the_steps_that_are_lost_and_no_more() -> None:
    before = run(*range(100))
    after = [*before, *run(50, 51, begin=500)]
    assert remaining(before, 200) == timedelta(seconds=2 * 101)
    assert remaining(after, 200) == timedelta(seconds=2 * 149)
    assert remaining([*before, *run(50, begin=500)], 200) == timedelta(seconds=2 * 150)


def test_the_wait_for_a_restart_is_no_pace() -> None:
    samples = [*run(*range(100)), *run(100, 101, 102, begin=900)]
    assert remaining(samples, 202) == timedelta(seconds=200)
    slow = [*run(*range(100)), *run(*range(100, 140), every=10, begin=210)]
    assert remaining(slow, 239) == timedelta(seconds=1000), "a pace that fell is a pace"
