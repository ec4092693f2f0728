"""What several tests share with test_training_pipeline."""

from __future__ import annotations

from dataclasses import replace

from textual.content import Content
from textual.widgets import Static

from tests.ui.double import MemoryJobs, job
from tui.app import VxtuiApp
from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.domain.core.task import Task
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


def text(content: object) -> str:
    return content.plain if isinstance(content, Content) else str(content)


def column(app: VxtuiApp, key: str) -> list[str]:
    table = app.screen.query_one(JobTable)
    return [text(table.cells_of(name)[key]) for name in table.keys]


def seen(app: VxtuiApp) -> str:
    """All text of the screen, in one line."""
    strips = app.screen._compositor.render_strips()
    return " ".join(" ".join(strip.text for strip in strips).split())


def question(app: VxtuiApp) -> str:
    return text(app.screen.query_one("#question", Static).content)
