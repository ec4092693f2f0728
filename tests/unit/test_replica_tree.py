"""What a folded group tells: the state that matters, the exit code, and who is furthest behind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tui.domain.core.replica import Replica
from tui.domain.core.states import JobState
from tui.domain.training.telemetry import TelemetryLine
from tui.domain.vertex.worker_pools import worker_pool
from tui.store.job.figures import JobFigures
from tui.store.job.series import SeriesStore
from tui.widgets.replica_tree import TreeData, group_cells

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
POOL = worker_pool(1, 63, "a2-highgpu-8g")


def figures(steps: dict[str, int]) -> TreeData:
    newest = JobFigures()
    # The furthest one has been there for long: a replica that reports a moment later is not behind.
    for second, most in enumerate(range(1, max(steps.values(), default=0) + 1)):
        at = NOW - timedelta(minutes=5) + timedelta(seconds=second)
        newest.add_lines(
            [TelemetryLine(at, "7", name, min(step, most)) for name, step in steps.items() if most <= step]
        )
    return TreeData(SeriesStore(), newest, NOW, timedelta(minutes=10), 8, ())


def pool(*states: JobState, code: int | None = None) -> list[Replica]:
    return [
        Replica(POOL.replica(n), POOL.name, n, POOL.role, state, code if state is JobState.FAILED else None)
        for n, state in enumerate(states)
    ]


@pytest.mark.parametrize(
    ("states", "said"),
    [
        ([JobState.RUNNING] * 63, "63 ● running"),
        ([JobState.RUNNING] * 61 + [JobState.FAILED] * 2, "2/63 ✗ failed"),
        ([JobState.SUCCEEDED] * 60 + [JobState.RUNNING] * 3, "3/63 ● running"),
        ([JobState.PENDING] * 3 + [JobState.RESTARTING], "1/4 ◐ restarting"),
    ],
)
def test_of_several_states_the_one_that_matters_most_is_told(states: list[JobState], said: str) -> None:
    cells = group_cells(POOL, pool(*states, code=137), figures({}), folded=True)
    assert cells["state"].plain == said
    assert cells["exit"].plain == ("137" if JobState.FAILED in states else "·")


def test_every_state_has_its_place() -> None:
    for state in JobState:
        assert state.value.lower() in group_cells(POOL, pool(state), figures({}), folded=True)["state"].plain


def test_the_replica_that_is_furthest_behind_is_told() -> None:
    steps = {"workerpool1-0": 90, "workerpool1-1": 40, "workerpool1-2": 90, "workerpool0-0": 90}
    cells = group_cells(POOL, pool(*[JobState.RUNNING] * 3), figures(steps), folded=True)
    assert cells["step"].plain == "40"
    assert int(cells["lag"].plain) > 0
    level = group_cells(POOL, pool(JobState.RUNNING), figures(steps), folded=True)
    assert (level["step"].plain, level["lag"].plain) == ("90", "0")


def test_an_open_pool_leaves_it_to_its_replicas() -> None:
    cells = group_cells(POOL, pool(JobState.RUNNING, JobState.FAILED), figures({}), folded=False)
    assert cells["state"].plain == "2 replicas" and "exit" not in cells
