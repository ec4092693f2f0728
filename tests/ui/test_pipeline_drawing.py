"""The tasks of a pipeline as a drawing: the cursor moves along lines, groups open, the tree is a key away."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.ui.double import NOON, console
from tests.ui.job_double import JobBackend
from tests.ui.job_snapshots_support import _utc  # noqa: F401 - times of the pictures
from tests.ui.jobs_screen_support import until
from tests.ui.pipeline_support import CHILD, LOOKS, PIPELINE, backend, many, on_tasks, task
from tests.ui.training_pipeline_support import seen
from tui.config.settings import Context, Settings
from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.domain.core.task import Task
from tui.screens.job.screen import JobScreen
from tui.screens.pipeline.tasks import PipelineTasksPane
from tui.store.job.feed import Changed
from tui.widgets.dag.view import DagView

RUNNING, PENDING = JobState.RUNNING, JobState.PENDING


def with_job(found: Job) -> JobBackend:
    made = backend()
    made.stored = {PIPELINE.name: found, CHILD.name: CHILD}
    return made


def drawn(pane: PipelineTasksPane) -> DagView:
    return pane.query_one(DagView)


async def test_the_cursor_follows_the_lines_and_groups_open(tmp_path: Path) -> None:
    app = console(backend(), tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        pane = await on_tasks(pilot, app)
        pane.table_view.move_to("2")
        await pilot.press("v")
        dag = drawn(pane)
        assert app.screen.focused is dag and dag.cursor == "2" and not pane.table_view.display
        await pilot.press("l")
        assert dag.cursor == "15" and "not triggered" in seen(app)
        await pilot.press("h", "j")
        assert dag.cursor == "3", "back along the same line, then down"
        await pilot.press("enter")
        assert pane.current is not None and pane.current.name == "for-loop-1-0"
        await pilot.press("enter")
        assert pane.current.name == "evaluate [x]" and "all tasks ▸ for-loop-1 ▸ for-loop-1-0" in seen(app)
        await pilot.press("escape", "escape")
        assert dag.cursor == "3" and isinstance(app.screen, JobScreen)
        await pilot.press("f", "e")
        assert dag.cursor == "2", "the failed task is outside of the group"
        await pilot.press("v")
        assert app.screen.focused is pane.table_view and pane.table_view.cursor == "2"
        await pilot.press("v", "enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job_name == CHILD.name,
                    "the task's own screen")  # fmt: skip


async def test_the_drawing_stays_where_it_is_when_states_change(tmp_path: Path) -> None:
    found = with_job(replace(PIPELINE, state=RUNNING, end_time=None))
    app = console(found, tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        pane = await on_tasks(pilot, app)
        await pilot.press("v")
        before = drawn(pane).drawing
        tasks = tuple(replace(each, state=RUNNING, native_state="RUNNING") for each in PIPELINE.tasks)
        found.stored[PIPELINE.name] = replace(PIPELINE, state=RUNNING, end_time=None, tasks=tasks)
        await pilot.press("ctrl+r")
        await until(
            pilot, lambda: pane.current is not None and pane.current.state is RUNNING, "the new state"
        )
        assert drawn(pane).drawing is before and "● running" in seen(app)
        await pilot.pause()
        painted = dict(drawn(pane)._strips)
        pane.show(Changed.JOB)
        assert painted and drawn(pane)._strips == painted, "what did not change is not painted again"


async def test_what_does_not_read_well_stays_a_tree(tmp_path: Path) -> None:
    app = console(with_job(many(300)), tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        pane = await on_tasks(pilot, app)
        await pilot.press("v")
        assert pane.table_view.display and not pane._drawn
        said = "".join(note.message for note in app._notifications)
        assert "Not drawn: 300 tasks are too many" in said


async def test_a_drawing_that_grows_too_large_becomes_a_tree(tmp_path: Path) -> None:
    app = console(with_job(many(20)), tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        pane = await on_tasks(pilot, app)
        await pilot.press("v", "G")
        assert drawn(pane).cursor == "19" and drawn(pane).scroll_offset.x > 0, "it follows the cursor"
        await pilot.press("g")
        assert drawn(pane).scroll_offset.x == 0
        pane.feed.job = many(100)
        pane.show(Changed.JOB)
        await pilot.pause()
        assert pane.table_view.display and not pane._drawn
        assert "Shown as a tree: 100 tasks" in "".join(note.message for note in app._notifications)


def large() -> tuple[Task, ...]:
    """A pipeline as people write them: data, features, some models side by side, a choice and a rollout."""
    names = {
        "read-raw-data": "", "validate-schema": "read-raw-data", "split": "validate-schema",
        "text-features": "split", "image-features": "split", "join-features": "text-features image-features",
        "train-small": "join-features split", "train-large": "join-features split",
        "train-baseline": "split", "evaluate": "train-small train-large train-baseline",
        "bias-report": "train-large", "if-good": "evaluate", "upload-model": "if-good",
        "deploy-canary": "upload-model", "import-reference": "", "compare": "import-reference evaluate",
        "report": "compare bias-report",
    }  # fmt: skip
    ids = {name: str(at) for at, name in enumerate(names, 100)}
    states = {"train-large": RUNNING, "train-baseline": JobState.FAILED, "read-raw-data": JobState.SKIPPED}
    return tuple(
        replace(
            task(3, name, states.get(name, PENDING if at > 9 else JobState.SUCCEEDED)),
            id=ids[name],
            end_time=NOON if at < 7 else None,
            depends_on=tuple(ids[other] for other in after.split()),
        )
        for at, (name, after) in enumerate(names.items())
    )


@pytest.mark.parametrize("name", [*LOOKS, "ascii"])
def test_a_drawing_looks_so(name: str, tmp_path: Path, snap_compare: Any) -> None:
    size, theme = LOOKS.get(name, LOOKS["usual"])
    here = Context("test", kind="local", project="p")
    found = with_job(replace(PIPELINE, state=RUNNING, end_time=None, tasks=large()))
    settings = Settings(theme=theme, ascii=name == "ascii")
    app = console(found, tmp_path, context=here, settings=settings)

    async def ready(pilot: Any) -> None:
        pane = await on_tasks(pilot, app)
        pane.table_view.move_to("107")
        await pilot.press("v")
        await until(pilot, lambda: app.screen.focused is drawn(pane), "the focus")
        await until(pilot, lambda: app.costs.prices is not None, "the prices")
        app.screen.refresh_frame()  # type: ignore[attr-defined]
        app.clear_notifications()
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=ready)
