"""What several tests share with test_pipeline."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from textual.pilot import Pilot

from tests.ui.double import NOON, job
from tests.ui.job_double import JobBackend
from tests.ui.job_snapshots_support import _utc  # noqa: F401 - times of the pictures
from tests.ui.jobs_screen_support import until
from tests.ui.training_pipeline_support import Kind
from tui.app import VxtuiApp
from tui.domain.core.job import Job, JobError
from tui.domain.core.states import JobState
from tui.domain.core.task import Task
from tui.domain.core.training_progress import Progress
from tui.screens.job.screen import JobScreen
from tui.screens.pipeline.tasks import PipelineTasksPane

DONE, FAILED, SKIPPED = JobState.SUCCEEDED, JobState.FAILED, JobState.SKIPPED
CHILD = replace(job(31, "nightly-train", age=20), state=FAILED)


def task(id: int, name: str, state: JobState = DONE, **more: Any) -> Task:
    start = NOON - timedelta(minutes=20 - id)
    times = {"start_time": start, "end_time": start + timedelta(minutes=3)} if state is not SKIPPED else {}
    native = more.pop("native", state.value)
    return Task(str(id), state, name=name, native_state=native, **times, **more)


LOOP = [
    each
    for number in range(5)
    for each in (
        task(4 + number, f"for-loop-1-{number}", parent="3", group=True),
        task(10 + number, "evaluate [x]", parent=str(4 + number), outputs={"loss": 2.5 - number / 10}),
    )
]
TASKS = (
    task(1, "tokenize", SKIPPED, native="SKIPPED", outputs={"data": "gs://b/tokens"}),
    task(2, "train", FAILED, depends_on=("1",), job=CHILD.name, attempts=2, parameters={"rate": 0.1},
         reason="The replica workerpool0-0 exited with a non-zero status of 1."),
    task(3, "for-loop-1", depends_on=("1",), group=True),
    *LOOP,
    task(15, "deploy", SKIPPED, native="NOT_TRIGGERED", depends_on=("2", "3")),
)  # fmt: skip
PIPELINE = replace(
    job(9, "nightly", age=21),
    name="projects/p/locations/us-central1/pipelineJobs/nightly-20261124",
    id="nightly-20261124",
    kind="pipeline_job",
    state=FAILED,
    end_time=NOON - timedelta(minutes=1),
    error=JobError(9, "The DAG failed because some tasks failed. The failed tasks are: [train]."),
    groups=(),
    composite=True,
    tasks=TASKS,
    progress=Progress(step=8, total_steps=8),
)


class PipelineJobs(Kind):
    kind = "pipeline_job"
    collection = "pipelineJobs"

    async def spec(self, name: str) -> dict[str, Any]:
        dag = {"tasks": {"train": {"componentRef": {"name": "comp-train"}}}}
        return {"name": name, "displayName": "nightly", "pipelineSpec": {"root": {"dag": dag}}, "state": "x"}


def backend() -> JobBackend:
    found = JobBackend(PIPELINE, CHILD)
    found.use(jobs={"custom_job": Kind(found), "pipeline_job": PipelineJobs(found)})
    return found


async def on_tasks(pilot: Pilot[Any], app: VxtuiApp) -> PipelineTasksPane:
    await until(pilot, lambda: len(app.store.jobs) == 2, "the list")
    app.open_job(PIPELINE.name)
    await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job, "the job")
    screen = app.screen
    assert isinstance(screen, JobScreen)
    screen.action_tab_tasks()
    pane = screen.pane
    assert isinstance(pane, PipelineTasksPane)
    await until(pilot, lambda: pane.table_view.keys, "the tasks")
    return pane


def many(count: int) -> Job:
    """A pipeline of so many tasks in a chain."""
    tasks = tuple(task(n, f"step-{n}", depends_on=(str(n - 1),) if n else ()) for n in range(count))
    return replace(PIPELINE, tasks=tasks)


LOOKS = {
    "small": ((80, 24), "vxtui-dark"), "usual": ((120, 40), "vxtui-dark"),
    "light": ((120, 40), "vxtui-light"), "large": ((200, 60), "vxtui-dark"),
}  # fmt: skip
