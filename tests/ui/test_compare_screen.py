"""Two marked runs are compared: only what differs, all by a key."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.ui.double import NOON, console, job
from tests.ui.job_double import JobBackend
from tests.ui.jobs_screen_support import until
from tests.ui.pipeline_support import LOOKS, PIPELINE, PipelineJobs, task
from tests.ui.training_pipeline_support import Kind, seen
from tui.app import VxtuiApp
from tui.config.settings import Context, Settings
from tui.domain.core.states import JobState
from tui.domain.core.task import Artifact
from tui.screens.job.screen import JobScreen
from tui.screens.jobs.compare import CompareScreen

VALUES: dict[str, dict[str, Any]] = {
    "nightly-20261124": {"rate": 0.1, "steps": 1000, "data": "gs://bucket/tokens [b]"},
    "nightly-20261125": {"rate": 0.3, "steps": 1000, "data": "gs://bucket/tokens [b]"},
}


def tasks(loss: float, minutes: int, deploy: JobState) -> tuple[Any, ...]:
    scores = Artifact("gs://bucket/x", "system.Metrics", metadata={"loss": loss, "accuracy": 0.5})
    return (
        task(1, "tokenize", JobState.SKIPPED, native="SKIPPED"),
        replace(task(2, "train", outputs={"steps": 1000}, output_artifacts={"scores": (scores,)}),
                end_time=NOON - timedelta(minutes=18 - minutes)),
        task(3, "deploy", deploy, native="NOT_TRIGGERED" if deploy is JobState.SKIPPED else deploy.value),
    )  # fmt: skip


OLD = replace(PIPELINE, tasks=tasks(2.5, 3, JobState.SKIPPED))
NEW = replace(
    PIPELINE,
    name=PIPELINE.name.replace("1124", "1125"),
    id="nightly-20261125",
    state=JobState.SUCCEEDED,
    error=None,
    create_time=NOON - timedelta(minutes=5),
    tasks=tasks(2.0, 9, JobState.SUCCEEDED),
)


class Runs(PipelineJobs):
    async def spec(self, name: str) -> dict[str, Any]:
        values = VALUES[name.rpartition("/")[2]]
        return {"name": name, "runtimeConfig": {"parameterValues": values}}


def app_with(tmp_path: Path, **more: Any) -> VxtuiApp:
    found = JobBackend(OLD, NEW, replace(job(40, "other", age=60)))
    found.use(jobs={"custom_job": Kind(found), "pipeline_job": Runs(found)})
    return console(found, tmp_path, **more)


async def compared(pilot: Pilot[Any], app: VxtuiApp) -> CompareScreen:
    await until(pilot, lambda: len(app.store.jobs) == 3, "the list")
    await pilot.press("g", "space", "space", "P")
    await until(pilot, lambda: isinstance(app.screen, CompareScreen) and app.screen.table.keys, "the rows")
    assert isinstance(app.screen, CompareScreen)
    return app.screen


async def test_two_marked_runs_are_compared(tmp_path: Path) -> None:
    app = app_with(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await compared(pilot, app)
        assert [row.key for row in screen._shown.values()] == [
            "parameter/rate", "result/state", "result/train.scores.loss", "task/train", "task/deploy",
        ]  # fmt: skip
        for words in (
            "A nightly-20261124",
            "0.1 0.3 +0.2 +200 %",
            "2.5 2 -0.5 -20 %",
            "not triggered succeeded",
        ):
            assert words in seen(app), words
        assert "succeeded 3m succeeded 9m +6m +200 %" in seen(app)
        await pilot.press("a")
        assert len(screen._shown) == 10 and "gs://bucket/tokens [b]" in seen(app)
        await pilot.press("/", *"accuracy", "enter")
        assert list(screen._shown) == ["result/train.scores.accuracy"]
        await pilot.press("escape", "B")
        await until(
            pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job_name == NEW.name, "run B"
        )
        await pilot.press("escape")
        assert app.screen is screen


async def test_what_can_not_be_compared_says_why(tmp_path: Path) -> None:
    app = app_with(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: len(app.store.jobs) == 3, "the list")

        def said() -> str:
            return " ".join(note.message for note in app._notifications)

        await pilot.press("P")
        assert "Mark two runs with space to compare them" in said()
        await pilot.press("asterisk", "P")
        assert "3 are marked" in said()
        await pilot.press("g", "space", "P")
        assert "A pipeline can't be compared with a custom job." in said()


@pytest.mark.parametrize("name", LOOKS)
def test_a_comparison_looks_so(name: str, tmp_path: Path, snap_compare: Any) -> None:
    size, theme = LOOKS[name]
    here = Context("test", kind="local", project="p")
    app = app_with(tmp_path, context=here, settings=Settings(theme=theme))

    async def ready(pilot: Pilot[Any]) -> None:
        await compared(pilot, app)
        app.clear_notifications()
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=ready)
