"""One task of a pipeline in full: its lines are searched, copied and lead to jobs, logs and other tasks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.ui.double import console, job
from tests.ui.job_snapshots_support import _utc  # noqa: F401 - times of the pictures
from tests.ui.jobs_screen_support import until
from tests.ui.pipeline_support import CHILD, LOOKS, PIPELINE, TASKS, backend, on_tasks
from tests.ui.training_pipeline_support import seen
from tui.app import VxtuiApp
from tui.config.settings import Context, Settings
from tui.domain.core.task import Artifact
from tui.screens.job.logs import LogsPane
from tui.screens.job.screen import JobScreen
from tui.screens.pipeline.task import TaskScreen

FIRST = replace(job(30, "nightly-train", age=20), state=CHILD.state)
DATA = Artifact("gs://bucket/root/1/nightly-0/tokenize_-5/data", "system.Dataset", "tokens", {"rows": 4_200})
SCORES = Artifact(
    "gs://bucket/scores", "system.Metrics", "scores", {"loss": 2.31, "note": "[b]not markup[/b]"}
)
FULL = tuple(
    replace(
        each,
        failed_jobs=(FIRST.name,),
        parameters={"rate": 0.1, "config": '{"layers": [1, 2],\n "wide": true}'},
        input_artifacts={"data": (DATA,)},
        output_artifacts={"scores": (SCORES,)},
        outputs={"scores": SCORES.uri, "loss": 2.31},
    )
    if each.name == "train"
    else replace(each, output_artifacts={"data": (DATA,)}, outputs={"data": DATA.uri})
    if each.name == "tokenize"
    else each
    for each in TASKS
)


def app_with(tmp_path: Path, **more: Any) -> VxtuiApp:
    found = backend()
    found.stored = {each.name: each for each in (replace(PIPELINE, tasks=FULL), CHILD)}
    return console(found, tmp_path, **more)


async def on_task(pilot: Pilot[Any], app: VxtuiApp, id: str = "2") -> TaskScreen:
    pane = await on_tasks(pilot, app)
    pane.table_view.move_to(id)
    await pilot.press("t")
    await until(pilot, lambda: isinstance(app.screen, TaskScreen) and app.screen.table.keys, "the task")
    assert isinstance(app.screen, TaskScreen)
    return app.screen


async def test_lines_are_found_copied_and_followed(tmp_path: Path) -> None:
    app = app_with(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await on_task(pilot, app)
        for words in ("system.Dataset", "4200", "[b]not markup[/b]", "exited with a non-zero", "1 failed"):
            assert words in seen(app), words
        copied: list[str] = []
        app.copy_to_clipboard = copied.append  # type: ignore[method-assign]
        await pilot.press("/", *"nightly-0", "enter")
        assert [fact.name for fact in screen._facts.values()] == ["data"]
        await pilot.press("y")
        await until(pilot, lambda: copied, "the copy")
        assert copied == [DATA.uri]
        await pilot.press("escape")
        assert isinstance(app.screen, TaskScreen) and len(screen._facts) > 5
        screen.table.move_to("task/after//1")
        await pilot.press("enter")
        await until(
            pilot, lambda: isinstance(app.screen, TaskScreen) and app.screen.task_id == "1", "tokenize"
        )
        assert "cached from" in seen(app) and "nightly-0" in seen(app)
        await pilot.press("L")
        assert "No separate job" in "".join(note.message for note in app._notifications)


async def test_the_log_of_each_attempt_is_a_key_away(tmp_path: Path) -> None:
    app = app_with(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await on_task(pilot, app)

        async def log_of(name: str) -> None:
            await pilot.press("L")
            await until(pilot, lambda: isinstance(app.screen, JobScreen), "the job")
            assert isinstance(app.screen, JobScreen)
            assert app.screen.job_name == name and isinstance(app.screen.pane, LogsPane)
            await pilot.press("escape")

        await log_of(CHILD.name)
        first = next(key for key in screen.table.keys if key.startswith("attempt/1"))
        screen.table.move_to(first)
        await log_of(FIRST.name)
        assert app.screen is screen and screen.table.cursor == first
        await pilot.press("escape", "L")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job_name == CHILD.name,
                    "the log, by the key on the tab")  # fmt: skip


@pytest.mark.parametrize("name", LOOKS)
def test_a_task_looks_so(name: str, tmp_path: Path, snap_compare: Any) -> None:
    size, theme = LOOKS[name]
    here = Context("test", kind="local", project="p")
    app = app_with(tmp_path, context=here, settings=Settings(theme=theme))

    async def ready(pilot: Pilot[Any]) -> None:
        screen = await on_task(pilot, app)
        screen.table.move_to("input/config//")
        app.clear_notifications()
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=ready)
