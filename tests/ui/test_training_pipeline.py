"""A training pipeline on the screens: a job with a child, whose log and figures it shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from textual.content import Content

from tests.ui.double import MemoryJobs, console, job
from tests.ui.job_double import JobBackend, a_log, no_gpu, waves
from tests.ui.test_jobs_screen import until
from tui.actions.registry import action
from tui.domain.job import Job
from tui.domain.states import JobState
from tui.domain.task import Task
from tui.screens.job.replicas import ReplicasPane
from tui.screens.job.screen import JobScreen
from tui.screens.job.tasks import TasksPane
from tui.widgets.table.job_table import JobTable

CHILD = job(8, "bert-custom-job", age=12)
PIPELINE = replace(
    job(7, "bert", age=12),
    name="projects/p/locations/us-central1/trainingPipelines/7",
    kind="training_pipeline",
    native_state="PIPELINE_STATE_RUNNING",
    tasks=(Task("custom-job", JobState.RUNNING, CHILD.name),),
)


class Kind(MemoryJobs):
    """The jobs of one kind of a backend."""

    kind = "custom_job"
    collection = "customJobs"

    def owns(self, name: str) -> bool:
        return f"/{self.collection}/" in name

    async def list_all(self, *, filter: str = ""):  # type: ignore[no-untyped-def]
        async for page in super().list_all(filter=filter):
            yield replace(page, jobs=tuple(j for j in page.jobs if j.kind == self.kind))

    async def find(self, reference: str) -> list[Job]:
        return [j for j in await super().find(reference) if j.kind == self.kind]


class Pipelines(Kind):
    kind = "training_pipeline"
    collection = "trainingPipelines"


def backend() -> JobBackend:
    found = JobBackend(PIPELINE, CHILD)
    found.say(*a_log())
    found.series = waves([r.id for r in CHILD.replicas])
    found.not_measured = no_gpu()
    found.use(jobs={"custom_job": Kind(found), "training_pipeline": Pipelines(found)})
    return found


def text(content: object) -> str:
    return content.plain if isinstance(content, Content) else str(content)


async def test_it_stands_in_the_list_with_its_kind_and_the_child_knows_it(tmp_path: Path) -> None:
    app = console(backend(), tmp_path)
    async with app.run_test(size=(160, 40)) as pilot:
        await until(pilot, lambda: len(app.store.jobs) == 2, "the list")
        await pilot.pause()
        assert app.store.jobs[CHILD.name].parent == PIPELINE.name
        table = app.screen.query_one(JobTable)
        assert "KIND" in [column.title for column in table.columns]
        kinds = {text(table.cells_of(key)["name"]): text(table.cells_of(key)["kind"]) for key in table.keys}
        assert kinds == {"bert": "training pipeline", "bert-custom-job": "custom job"}
        # The machines are counted once.
        assert "1 running" in "".join(text(part) for part in app.screen.top_line())
        assert [job.name for job in app.store.jobs.values() if job.runs_itself] == [CHILD.name]


async def test_its_tabs_show_the_log_and_the_figures_of_the_child(tmp_path: Path) -> None:
    found = backend()
    app = console(found, tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: len(app.store.jobs) == 2, "the list")
        app.open_job(PIPELINE.name)
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.is_mounted, "the screen")
        screen = app.screen
        assert isinstance(screen, JobScreen)
        assert list(screen.panes) == [
            "overview", "tasks", "replicas", "logs", "metrics", "spec", "events",
        ]  # fmt: skip
        await until(pilot, lambda: len(screen.feed.buffer) >= len(found.entries), "the log")
        assert {query.job_name for query in found.queries} == {CHILD.name}
        await until(
            pilot, lambda: screen.feed.series.of("cpu") or screen.feed.sources["metrics"].read_at, "CPU"
        )
        screen.action_tab_replicas()
        await pilot.pause()
        assert isinstance(screen.pane, ReplicasPane)
        assert "workerpool1-0" in screen.pane.tree_view

        screen.action_tab_tasks()
        await pilot.pause()
        assert isinstance(screen.pane, TasksPane)
        cells = screen.pane.table_view.cells_of("custom-job")
        assert text(cells["job"]) == CHILD.id
        await pilot.press("enter")
        await until(
            pilot,
            lambda: isinstance(app.screen, JobScreen) and app.screen.job_name == CHILD.name,
            "the child's screen",
        )
        assert isinstance(app.screen, JobScreen)
        assert app.screen.blocked_reason(action("job.tasks")) == "A custom job has no tasks."


async def test_cancel_names_the_pipeline_and_asks_its_own_service(tmp_path: Path) -> None:
    found = backend()
    app = console(found, tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: len(app.store.jobs) == 2, "the list")
        app.open_job(PIPELINE.name)
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job, "the job")
        await pilot.press("c")
        await pilot.pause()
        await pilot.press("y")
        await until(pilot, lambda: found.cancelled, "the cancel")
        assert found.cancelled == [PIPELINE.name]
