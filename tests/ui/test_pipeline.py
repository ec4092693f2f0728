"""A pipeline on the screens: its tasks as a tree, loops folded, the failed one found by a key."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from textual.content import Content
from textual.pilot import Pilot

from tests.ui.double import NOON, console, job
from tests.ui.job_double import JobBackend
from tests.ui.test_job_snapshots import _utc  # noqa: F401 - times of the pictures
from tests.ui.test_jobs_screen import until
from tests.ui.test_training_pipeline import Kind, column, question, seen
from tui.app import VxtuiApp
from tui.config.settings import Context, Settings
from tui.domain.job import Job, JobError
from tui.domain.states import JobState
from tui.domain.task import Task
from tui.domain.training.progress import Progress
from tui.screens.dialogs.confirm import ConfirmScreen
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


def cell(pane: PipelineTasksPane, id: str, key: str) -> str:
    found = pane.table_view.cells_of(id)[key]
    return found.plain if isinstance(found, Content) else str(found)


async def test_tasks_stand_in_their_order_with_what_became_of_them(tmp_path: Path) -> None:
    app = console(backend(), tmp_path)
    async with app.run_test(size=(160, 40)) as pilot:
        pane = await on_tasks(pilot, app)
        assert list(pane.table_view.keys) == ["1", "2", "3", "15"]
        assert cell(pane, "3", "name").strip() == "▸ for-loop-1  5/5"
        assert cell(pane, "1", "state") == "✓ cached" and cell(pane, "15", "state") == "⊘ not triggered"
        assert cell(pane, "15", "after") == "train for-loop-1"
        assert "8 of 8 tasks ended   1 failed   1 cached" in pane.status().plain
        await pilot.press("f")
        assert "has no parts" in "".join(note.message for note in app._notifications)


async def test_groups_open_and_the_failed_task_is_found(tmp_path: Path) -> None:
    app = console(backend(), tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        pane = await on_tasks(pilot, app)
        pane.table_view.move_to("3")
        await pilot.press("enter")
        assert list(pane.table_view.keys)[:5] == ["1", "2", "3", "4", "10"]
        assert cell(pane, "10", "name").endswith("evaluate [x]") and cell(pane, "10", "outputs") == "loss=2.5"
        pane.table_view.move_to("10")
        await pilot.press("f")
        assert pane.table_view.cursor == "4" and "10" not in pane.table_view
        await pilot.press("e")
        assert pane.table_view.cursor == "2"
        for words in ("exited with a non-zero status of 1", "attempts", "rate", "0.1", "tokenize"):
            assert words in seen(app), words
        await pilot.press("enter")
        await until(
            pilot,
            lambda: isinstance(app.screen, JobScreen) and app.screen.job_name == CHILD.name,
            "the task's own screen",
        )


async def test_the_list_has_the_pipeline_with_its_parts(tmp_path: Path) -> None:
    app = console(backend(), tmp_path)
    async with app.run_test(size=(160, 40)) as pilot:
        await until(pilot, lambda: len(app.store.jobs) == 2, "the list")
        await until(pilot, lambda: app.costs.prices is not None, "the prices")
        await pilot.pause()
        assert column(app, "name") == ["▸ nightly  1 part"] and column(app, "kind") == ["pipeline"]
        await pilot.press("f")
        assert column(app, "name") == ["▾ nightly", "└ train"]
        # It costs what its tasks' jobs do, and only one row says so.
        first, second = column(app, "cost")
        assert first.startswith("~$") and second == ""


async def test_it_is_run_again_after_a_question(tmp_path: Path) -> None:
    found = backend()
    app = console(found, tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await on_tasks(pilot, app)
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen), "the question")
        assert question(app) == "Run nightly again?" and "6 of 8 tasks succeeded" in seen(app)
        await pilot.press("y")
        await until(pilot, lambda: found.created, "the create")
        (request,) = found.created
        tasks = request.resource["pipelineSpec"]["root"]["dag"]["tasks"]
        assert tasks["train"]["cachingOptions"] == {"enableCache": True}
        assert (request.region, request.resource["displayName"]) == ("us-central1", "nightly")


async def test_one_that_runs_is_not_run_again(tmp_path: Path) -> None:
    found = backend()
    found.stored = {
        PIPELINE.name: replace(PIPELINE, state=JobState.RUNNING, end_time=None),
        CHILD.name: CHILD,
    }
    app = console(found, tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await on_tasks(pilot, app)
        await pilot.press("r")
        assert "! nightly is running." in [note.message for note in app._notifications]
        assert not found.created


def many(count: int) -> Job:
    """A pipeline of so many tasks in a chain."""
    tasks = tuple(task(n, f"step-{n}", depends_on=(str(n - 1),) if n else ()) for n in range(count))
    return replace(PIPELINE, tasks=tasks)


async def test_three_hundred_tasks_are_shown_and_scrolled(tmp_path: Path) -> None:
    found = backend()
    found.stored = {PIPELINE.name: many(300), CHILD.name: CHILD}
    app = console(found, tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        pane = await on_tasks(pilot, app)
        await until(pilot, lambda: len(pane.table_view.keys) == 300, "all tasks")
        await pilot.press("G")
        assert pane.table_view.cursor == "299"


LOOKS = {
    "small": ((80, 24), "vxtui-dark"), "usual": ((120, 40), "vxtui-dark"),
    "light": ((120, 40), "vxtui-light"), "large": ((200, 60), "vxtui-dark"),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOKS)
def test_a_pipeline_looks_so(name: str, tmp_path: Path, snap_compare: Any) -> None:
    size, theme = LOOKS[name]
    here = Context("test", kind="local", project="p")
    app = console(backend(), tmp_path, context=here, settings=Settings(theme=theme))

    async def ready(pilot: Pilot[Any]) -> None:
        pane = await on_tasks(pilot, app)
        pane.table_view.move_to("3")
        await pilot.press("f", "e")
        await until(pilot, lambda: app.screen.focused is pane.table_view, "the focus")
        app.clear_notifications()
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=ready)
