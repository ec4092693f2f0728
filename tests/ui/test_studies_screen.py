"""Studies and pipelines in a list of their own: progress, best result, failed task, a kind's own keys."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.ui.double import NOON, MemoryBackend, job
from tests.ui.folded_jobs_support import NIGHTLY, SWEEP, TOKENIZE, TRIALS, Sweeps
from tests.ui.jobs_screen_support import lines, opened, until
from tests.ui.pipeline_support import CHILD, PIPELINE, PipelineJobs
from tests.ui.training_pipeline_support import PIPELINE as WRAPPER
from tests.ui.training_pipeline_support import Kind, Pipelines, question, seen
from tui.actions.registry import action
from tui.app import VxtuiApp
from tui.backends.interface import Unavailable
from tui.domain.core.states import JobState
from tui.domain.core.task import Task
from tui.domain.core.training_progress import Progress
from tui.domain.jobs.parts import Best, parts
from tui.domain.tuning.study import Metric, Study
from tui.kinds.registry import kinds
from tui.screens.dialogs.confirm import ConfirmScreen
from tui.screens.job.screen import JobScreen
from tui.screens.jobs.compare import CompareScreen
from tui.screens.studies.screen import StudiesScreen, listed_kinds
from tui.widgets.table.table import Table

STUDY = Study((Metric("accuracy", maximize=True),), trials=20, parallel=2)
RESULTS = tuple(
    Task(str(at), state, metrics=metrics, end_time=NOON - timedelta(minutes=9 - at))
    for at in range(1, 7)
    for state, metrics in [
        (JobState.FAILED, {}) if at == 3 else (JobState.SUCCEEDED, {"accuracy": at / 10})
    ]
)  # fmt: skip
TUNED = replace(
    SWEEP, name=SWEEP.name + "9", id="39", display_name="lr-sweep", details=STUDY,
    create_time=NOON - timedelta(minutes=90), start_time=NOON - timedelta(minutes=89),
    tasks=(*RESULTS, Task("7", JobState.RUNNING, start_time=NOON)), progress=Progress(step=6, total_steps=20),
)  # fmt: skip


def backend() -> MemoryBackend:
    found = MemoryBackend([*TRIALS, SWEEP, TOKENIZE, NIGHTLY, TUNED, PIPELINE, CHILD, WRAPPER])
    found.use(
        jobs={
            "custom_job": Kind(found),
            "training_pipeline": Pipelines(found),
            "tuning_job": Sweeps(found),
            "pipeline_job": PipelineJobs(found),
        }
    )
    return found


async def on_studies(pilot: Pilot[Any], app: VxtuiApp, count: int = 4) -> Table:
    await until(pilot, lambda: len(app.store.jobs) == 9, "the list")
    await until(pilot, lambda: app.costs.prices is not None, "the prices")
    await pilot.press("5")
    await until(pilot, lambda: isinstance(app.screen, StudiesScreen), "the screen")
    table = app.screen.query_one(Table)
    await until(pilot, lambda: len(table.keys) == count, "the rows")
    return table


def cells(table: Table, key: str) -> list[str]:
    return [str(table.cells_of(name)[key]) for name in table.keys]


async def test_each_says_how_far_it_is_and_what_has_come_of_it(tmp_path: Path) -> None:
    async with opened(backend(), tmp_path, size=(160, 40)) as (app, pilot):
        table = await on_studies(pilot, app)
        assert cells(table, "name") == ["nightly ▸ sweep", "nightly", "nightly", "lr-sweep"]
        assert cells(table, "done") == [
            "░░░░░░░░ 0/2", "████░░░░ 1/2", "████████ 8/8", "██░░░░░░ 6/20"
        ]  # fmt: skip
        found = cells(table, "result")
        assert found[1] == "sweep" and found[3] == "accuracy 0.6 by trial 6"
        assert found[2].startswith("train failed: The replica workerpool0-0 exited")
        assert cells(table, "running") == ["2", "1", "–", "1"]
        assert all(text.startswith("~$") for text in cells(table, "cost")[:3])
        assert "Studies & pipelines   4" in lines(app)


async def test_enter_opens_the_tasks_and_filters_and_marks_work(tmp_path: Path) -> None:
    async with opened(backend(), tmp_path) as (app, pilot):
        table = await on_studies(pilot, app)
        await pilot.press("slash", *"kind:tuning", "enter")
        await until(pilot, lambda: len(table.keys) == 2, "the tuning jobs")
        assert "2 of 4" in lines(app)
        await pilot.press("escape", "j", "space")
        assert "1 marked with 4 parts" in lines(app)
        await pilot.press("c")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen), "the question")
        assert question(app).startswith("Cancel nightly (2 parts, 1 of them running)")
        await pilot.press("n", "escape")
        assert not table.marks
        assert app.screen.blocked_reason(action("studies.compare"))  # type: ignore[attr-defined]
        await pilot.press("g", "j", "space", "space")
        await until(pilot, lambda: "P compare" in seen(app), "two of a kind")
        await pilot.press("P")
        await until(pilot, lambda: isinstance(app.screen, CompareScreen), "the comparison")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, StudiesScreen), "the list after that")
        await pilot.press("escape", "g", "enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen), "the job")
        screen = app.screen
        assert isinstance(screen, JobScreen) and screen.job_name == table.keys[0]
        await until(pilot, lambda: screen.pane is screen.panes["tasks"], "its trials")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, StudiesScreen), "the list again")
        await pilot.press("l")
        await until(pilot, lambda: app.current_mode == "profiles", "the profiles")


async def test_a_key_of_a_kind_works_on_its_rows_alone(tmp_path: Path) -> None:
    async with opened(backend(), tmp_path) as (app, pilot):
        table = await on_studies(pilot, app)
        assert " r rerun" not in seen(app)
        await pilot.press("r")
        assert not isinstance(app.screen, ConfirmScreen)
        table.move_to(PIPELINE.name)
        await until(pilot, lambda: "r rerun" in seen(app), "the key")
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen), "the question")
        assert question(app) == "Run nightly again?"


async def test_an_empty_list_and_one_that_cannot_be_read_say_what_to_do(tmp_path: Path) -> None:
    async with opened(MemoryBackend([job(1, "plain")]), tmp_path / "a") as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: "No studies or pipelines here yet." in seen(app), "the notice")
    broken = MemoryBackend([])
    broken.error = Unavailable("The service does not answer.")
    async with opened(broken, tmp_path / "b") as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: "The service does not answer." in seen(app), "the reason")


def test_a_study_knows_its_total_and_goes_on_without_failed_trials() -> None:
    found = parts(TUNED)
    assert (found.done, found.total, found.failed) == (6, 20, None)
    assert found.best == Best("accuracy", 0.6, "6") and [task.id for task in found.at_work] == ["7"]
    stopped = parts(replace(TUNED, state=JobState.FAILED))
    assert stopped.failed is not None and stopped.failed.id == "3"
    # What no list says is not known, rather than none.
    assert parts(replace(TUNED, tasks=())).done is None
    assert parts(replace(PIPELINE, tasks=(), start_time=None, state=JobState.PENDING)).done == 0


def test_the_kinds_say_which_jobs_are_listed() -> None:
    assert {kind.key for kind in listed_kinds()} == {kind.key for kind in kinds() if kind.task_kinds}


SIZES = {"small": (80, 24), "usual": (120, 40), "large": (200, 60)}


@pytest.mark.parametrize(
    ("size", "theme"),
    [(SIZES["small"], ""), (SIZES["usual"], ""), (SIZES["large"], ""), (SIZES["usual"], "textual-light")],
    ids=["small", "usual", "large", "light"],
)
def test_studies_look_so(snap_compare: Any, tmp_path: Path, size: tuple[int, int], theme: str) -> None:
    from tests.ui.double import console

    app = console(backend(), tmp_path)

    async def ready(pilot: Pilot[Any]) -> None:
        if theme:
            app.theme = theme
        table = await on_studies(pilot, app)
        table.move_to(PIPELINE.name)
        await pilot.pause()

    assert snap_compare(app, run_before=ready, terminal_size=size)
