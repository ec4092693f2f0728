"""What a dialog says would be lost with a job."""

from __future__ import annotations

from dataclasses import replace

from tests.ui.double import NOON, job
from tui.domain.core.formatting import stakes
from tui.domain.core.states import JobState
from tui.domain.core.task import Task
from tui.domain.core.training_progress import Progress


def test_a_composite_job_is_named_by_its_parts_and_not_by_the_steps_of_a_trainer() -> None:
    trials = [
        Task(str(number), JobState.RUNNING if number < 3 else JobState.SUCCEEDED) for number in range(8)
    ]
    sweep = replace(
        job(1, "sweep"), composite=True, tasks=tuple(trials), progress=Progress(step=5, total_steps=8)
    )
    assert stakes(sweep, NOON).startswith("8 parts, 3 of them running, ")
    assert "checkpoint" not in stakes(sweep, NOON) and "replica" not in stakes(sweep, NOON)
    alone = replace(sweep, composite=False, tasks=())
    assert "replica" in stakes(alone, NOON) and stakes(alone, NOON).endswith("62%, no checkpoint yet")
