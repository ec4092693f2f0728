"""A pipeline on the screens: its tasks as a tree, loops folded, the failed one found by a key."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.content import Content
from textual.pilot import Pilot

from tests.ui.double import console
from tests.ui.job_snapshots_support import _utc  # noqa: F401 - times of the pictures
from tests.ui.jobs_screen_support import until
from tests.ui.pipeline_support import CHILD, LOOKS, PIPELINE, backend, many, on_tasks
from tests.ui.training_pipeline_support import column, question, seen
from tui.config.settings import Context, Settings
from tui.domain.core.states import JobState
from tui.screens.dialogs.confirm import ConfirmScreen
from tui.screens.job.screen import JobScreen
from tui.screens.pipeline.tasks import PipelineTasksPane


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
        assert "! nightly is running; wait for its end." in [note.message for note in app._notifications]
        assert not found.created


async def test_three_hundred_tasks_are_shown_and_scrolled(tmp_path: Path) -> None:
    found = backend()
    found.stored = {PIPELINE.name: many(300), CHILD.name: CHILD}
    app = console(found, tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        pane = await on_tasks(pilot, app)
        await until(pilot, lambda: len(pane.table_view.keys) == 300, "all tasks")
        await pilot.press("G")
        assert pane.table_view.cursor == "299"


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
