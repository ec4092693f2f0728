"""What several tests share with test_tuning_job."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from textual.pilot import Pilot

from tests.ui.double import NOON, job
from tests.ui.job_double import JobBackend, a_log
from tests.ui.jobs_screen_support import until
from tests.ui.training_pipeline_support import Kind
from tui.app import VxtuiApp
from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.domain.core.task import Task
from tui.domain.tuning.study import Metric, Study, StudyParameter
from tui.screens.job.screen import JobScreen
from tui.screens.tuning.trials import TrialsPane

STUDY = Study(
    (Metric("loss", maximize=False),),
    (
        StudyParameter("lr", "double", 0.0001, 0.1, log=True),
        StudyParameter("optimizer", "categorical", values=("adamw", "sgd [old]")),
    ),
    trials=8,
    parallel=2,
)
LOSSES = (3.9, 3.0, None, 2.5, 3.2, 2.9)


def child(number: int) -> Job:
    ended = number < 5
    state = JobState.SUCCEEDED if ended else JobState.RUNNING
    return replace(job(20 + number, f"sweep-trial-{number}", age=30 - number), state=state)


def trial(number: int, loss: float | None) -> Task:
    start = NOON - timedelta(minutes=30 - number)
    state = JobState.RUNNING if number > 4 else JobState.FAILED if loss is None else JobState.SUCCEEDED
    return Task(
        str(number),
        state,
        child(number).name,
        parameters={"lr": 0.001 * 3**number, "optimizer": STUDY.parameters[1].values[number % 2]},
        metrics={} if loss is None else {"loss": loss},
        step=None if loss is None else 40,
        reason="" if loss is not None else "The trial reported no finite value of the metric 'loss'.",
        start_time=start,
        end_time=start + timedelta(minutes=2) if state.terminal else None,
    )


SWEEP = replace(
    job(7, "sweep", age=31),
    name="projects/p/locations/us-central1/hyperparameterTuningJobs/7",
    kind="tuning_job",
    composite=True,
    details=STUDY,
    tasks=tuple(trial(number, loss) for number, loss in enumerate(LOSSES, 1)),
)


class TuningJobs(Kind):
    kind = "tuning_job"
    collection = "hyperparameterTuningJobs"


class CustomJobs(Kind):
    async def spec(self, name: str) -> dict[str, Any]:
        pool = {
            "machineSpec": {"machineType": "n1-standard-4"},
            "replicaCount": "1",
            "containerSpec": {"imageUri": "us-docker.pkg.dev/p/r/i:t", "args": ["--lr=0.081"]},
        }
        found = {"name": name, "displayName": (await self.get(name)).display_name}
        return {**found, "jobSpec": {"workerPoolSpecs": [pool]}}


def backend() -> JobBackend:
    found = JobBackend(SWEEP, *(child(number) for number in range(1, 7)))
    found.say(*a_log())
    found.use(jobs={"custom_job": CustomJobs(found), "tuning_job": TuningJobs(found)})
    return found


async def on_trials(pilot: Pilot[Any], app: VxtuiApp) -> TrialsPane:
    await until(pilot, lambda: len(app.store.jobs) == 7, "the list")
    app.open_job(SWEEP.name)
    await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job, "the job")
    screen = app.screen
    assert isinstance(screen, JobScreen)
    screen.action_tab_tasks()
    await until(
        pilot, lambda: isinstance(screen.pane, TrialsPane) and screen.pane.table_view.keys, "the trials"
    )
    assert isinstance(screen.pane, TrialsPane)
    return screen.pane
