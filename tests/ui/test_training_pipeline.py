"""A training pipeline on the screens: a job with a child, whose log and figures it shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.ui.double import NOON, console
from tests.ui.job_double import JobBackend, a_log, no_gpu, waves
from tests.ui.jobs_screen_support import until
from tests.ui.training_pipeline_support import CHILD, PIPELINE, Kind, Pipelines, column, question, seen, text
from tui.actions.registry import action
from tui.app import VxtuiApp
from tui.backends.interface import NotFound
from tui.domain.core.states import JobState
from tui.screens.dialogs.confirm import ConfirmScreen
from tui.screens.job.replicas import ReplicasPane
from tui.screens.job.screen import JobScreen
from tui.screens.job.tasks import TasksPane
from tui.screens.jobs.screen import JobsScreen


def backend() -> JobBackend:
    found = JobBackend(PIPELINE, CHILD)
    found.say(*a_log())
    found.series = waves([r.id for r in CHILD.replicas])
    found.not_measured = no_gpu()
    found.use(jobs={"custom_job": Kind(found), "training_pipeline": Pipelines(found)})
    return found


async def on_job(pilot: Pilot[Any], app: VxtuiApp, name: str) -> JobScreen:
    """The screen of this job, open."""
    app.open_job(name)
    await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.is_mounted, "the screen")
    assert isinstance(app.screen, JobScreen)
    return app.screen


@pytest.mark.parametrize("width", [80, 100, 160])
async def test_it_stands_in_the_list_with_its_kind_and_its_child_below_it(tmp_path: Path, width: int) -> None:
    app = console(backend(), tmp_path)
    async with app.run_test(size=(width, 40)) as pilot:
        await until(pilot, lambda: len(app.store.jobs) == 2, "the list")
        await until(pilot, lambda: app.costs.prices is not None, "the prices")
        await pilot.pause()
        assert app.store.jobs[CHILD.name].parent == PIPELINE.name
        assert column(app, "name") == ["▸ bert  1 part"]
        await pilot.press("f")
        assert column(app, "name") == ["▾ bert", "└ custom-job"]
        assert column(app, "kind") == ["training", "custom"]
        assert " KIND " in seen(app) and " training " in seen(app)
        # A piece of work is counted once, and so are its machines and its cost.
        screen = app.screen
        assert isinstance(screen, JobsScreen)
        assert "1 running" in "".join(text(part) for part in screen.top_line())
        assert screen.count_text() == "1 + 1 part"
        first, second = column(app, "cost")
        assert first.startswith("~$") and second == ""
        assert column(app, "accelerators") == ["–", ""]
        await pilot.press("S")
        assert column(app, "name") == ["▾ bert", "└ custom-job"]


async def test_a_child_alone_has_its_cost_and_stands_for_itself(tmp_path: Path) -> None:
    app = console(backend(), tmp_path)
    async with app.run_test(size=(160, 40)) as pilot:
        await until(pilot, lambda: len(app.store.jobs) == 2, "the list")
        await until(pilot, lambda: app.costs.prices is not None, "the prices")
        await pilot.press("slash", *"kind:custom", "enter")
        await until(
            pilot, lambda: column(app, "name") == ["bert", "└ custom-job"], "the child below its parent"
        )
        # The parent does not match: it only says whose part this is.
        first, second = column(app, "cost")
        assert first == "" and second.startswith("~$")
        assert isinstance(app.screen, JobsScreen)
        assert app.screen.count_text() == "0 of 1 + 1 part"


async def test_jobs_are_sorted_and_grouped_by_kind(tmp_path: Path) -> None:
    app = console(backend(), tmp_path)
    async with app.run_test(size=(160, 40)) as pilot:
        await until(pilot, lambda: len(app.store.jobs) == 2, "the list")
        screen = app.screen
        assert isinstance(screen, JobsScreen)
        screen.rows.order.sort = "name"
        await pilot.press("s")
        assert "sorted by kind" in text(screen.order_text())
        await pilot.press("b", "b", "b")
        keys = [key.removeprefix("group ") for key in screen.table.keys]
        assert keys == ["custom job", CHILD.name, "training pipeline", PIPELINE.name]
        assert screen.count_text() == "1 + 1 part" and column(app, "replicas") == ["2", "1+1", "0", "1+1"]
        await pilot.press("b")
        assert screen.rows.order.group == ""


@pytest.mark.parametrize("keys", [["b"], ["b", "b"]], ids=["region", "state"])
async def test_a_group_counts_a_piece_of_work_once(tmp_path: Path, keys: list[str]) -> None:
    app = console(backend(), tmp_path)
    async with app.run_test(size=(160, 40)) as pilot:
        await until(pilot, lambda: len(app.store.jobs) == 2, "the list")
        await pilot.press(*keys)
        screen = app.screen
        assert isinstance(screen, JobsScreen)
        head, *rows = column(app, "name")
        assert head.endswith("  1 job") and rows == ["▸ bert  1 part"]
        assert column(app, "replicas")[0] == "2" and "1 ● running" in column(app, "progress")[0]
        assert screen.count_text() == "1 + 1 part"


async def test_cancel_offers_a_piece_of_work_once_and_names_what_else_ends(tmp_path: Path) -> None:
    found = backend()
    app = console(found, tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: len(app.store.jobs) == 2, "the list")
        await pilot.pause()
        await pilot.press("asterisk", "c")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen), "the question")
        assert question(app) == "Cancel bert (2 replicas)?"
        await pilot.press("n")
        await pilot.press("asterisk", "f", "G", "c")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen), "the question")
        assert question(app) == "Cancel bert-custom-job (2 replicas), which ends the training pipeline bert?"
        await pilot.press("y")
        await until(pilot, lambda: found.cancelled, "the cancel")
        assert found.cancelled == [CHILD.name]


async def test_the_child_names_the_pipeline(tmp_path: Path) -> None:
    app = console(backend(), tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: len(app.store.jobs) == 2, "the list")
        app.open_job(CHILD.name)
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.is_mounted, "the screen")
        assert isinstance(app.screen, JobScreen)
        assert "Jobs ▸ bert ▸ bert-custom-job" in "".join(text(part) for part in app.screen.top_line())
        await until(pilot, lambda: "part of training pipeline bert" in seen(app), "the overview")


async def test_a_deleted_child_is_said_once_and_not_asked_for_again(tmp_path: Path) -> None:
    found = backend()
    ended = {"state": JobState.SUCCEEDED, "end_time": NOON}
    found.stored = {PIPELINE.name: replace(PIPELINE, **ended)}
    found.log_error = found.metrics_error = NotFound(f"{CHILD.name} does not exist")
    app = console(found, tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: len(app.store.jobs) == 1, "the list")
        screen = await on_job(pilot, app, PIPELINE.name)
        await until(
            pilot,
            lambda: screen.feed.sources["logs"].done and screen.feed.sources["metrics"].done,
            "the end of reading",
        )
        top = "".join(text(part) for part in screen.top_line())
        assert "its custom job was deleted" in top
        assert "not reached" not in top
        screen.action_tab_metrics()
        await until(pilot, lambda: "can't be read: its custom job" in seen(app), "the notice")
        assert "not reached" not in seen(app)


async def test_its_tabs_show_the_log_and_the_figures_of_the_child(tmp_path: Path) -> None:
    found = backend()
    app = console(found, tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: len(app.store.jobs) == 2, "the list")
        screen = await on_job(pilot, app, PIPELINE.name)
        assert list(screen.panes) == [
            "overview", "tasks", "replicas", "logs", "metrics", "attempts", "spec", "events",
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
