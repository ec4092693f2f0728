"""Jobs of jobs in the list: folded in all depths, kept for the next start, counted once, ended together."""

from __future__ import annotations

from pathlib import Path

from tests.ui.double import MemoryBackend, job, pool
from tests.ui.folded_jobs_support import GPU, NIGHTLY, RUNNING, SWEEP, TOKENIZE, TRIALS, Sweeps
from tests.ui.jobs_screen_support import lines, opened, until
from tests.ui.many_jobs_support import toasts
from tests.ui.training_pipeline_support import Kind, column, question
from tui.app import VxtuiApp
from tui.screens.dialogs.confirm import ConfirmScreen
from tui.screens.jobs.screen import JobsScreen

OTHER = job(6, "other", RUNNING, age=5, groups=(pool(0, 1, GPU, 1),))


class Pipelines(Kind):
    kind = "pipeline_job"
    collection = "pipelineJobs"


def backend() -> MemoryBackend:
    found = MemoryBackend([*TRIALS, SWEEP, TOKENIZE, NIGHTLY, OTHER])
    found.use(jobs={"custom_job": Kind(found), "tuning_job": Sweeps(found), "pipeline_job": Pipelines(found)})
    return found


def names(app: VxtuiApp) -> list[str]:
    return column(app, "name")


async def test_parts_are_folded_in_all_depths_and_the_fold_is_kept(tmp_path: Path) -> None:
    async with opened(backend(), tmp_path) as (app, pilot):
        await until(pilot, lambda: names(app) == ["other", "▸ nightly  4 parts"], "the list")
        await pilot.press("j", "f")
        assert names(app)[1:] == ["▾ nightly", "└ ▸ sweep  2 parts", "└ tokenize"]
        await pilot.press("j", "f")
        opened_rows = ["▾ nightly", "└ ▾ sweep", "  └ 2", "  └ 1", "└ tokenize"]
        assert names(app)[1:] == opened_rows
        # Children stay with what they are a part of, whatever the order.
        await pilot.press("S")
        assert names(app)[:2] == ["▾ nightly", "└ tokenize"] and names(app)[-1] == "other"
        await pilot.press("S")
        await until(pilot, lambda: names(app)[1:] == opened_rows, "the order again")
    async with opened(backend(), tmp_path) as (app, pilot):
        await until(pilot, lambda: names(app)[1:] == opened_rows, "what was opened before")
        await pilot.press("j", "f")
        assert names(app) == ["other", "▸ nightly  4 parts"]
    async with opened(backend(), tmp_path) as (app, pilot):
        await until(pilot, lambda: names(app) == ["other", "▸ nightly  4 parts"], "what was closed before")


async def test_machines_and_cost_stand_once(tmp_path: Path) -> None:
    async with opened(backend(), tmp_path, size=(200, 40)) as (app, pilot):
        await until(pilot, lambda: len(app.store.jobs) == 6 and app.costs.prices is not None, "the list")
        assert "2 running" in lines(app) and "5 accelerators" in lines(app)
        assert column(app, "accelerators") == ["1 L4", "4 L4"]
        await pilot.press("j", "f", "j", "f")
        assert column(app, "accelerators") == ["1 L4", "4 L4", "", "", "", ""]
        shown = [text for text in column(app, "cost") if text]
        assert len(shown) == 2
        # What the rows say together is what the jobs with machines cost together.
        rows = [app.spent(app.store.jobs[name], app.clock()) for name in (OTHER.name, NIGHTLY.name)]
        leaves = [app.spent(each, app.clock()) for each in (OTHER, TOKENIZE, *TRIALS)]
        assert abs(sum(filter(None, rows)) - sum(filter(None, leaves))) < 1e-6


async def test_a_filter_shows_what_a_part_belongs_to(tmp_path: Path) -> None:
    async with opened(backend(), tmp_path) as (app, pilot):
        await until(pilot, lambda: len(app.store.jobs) == 6, "the list")
        await pilot.press("slash", *"name:sweep-1", "enter")
        await until(pilot, lambda: names(app) == ["nightly", "└ sweep", "  └ 1"], "the part")
        screen = app.screen
        assert isinstance(screen, JobsScreen)
        assert screen.count_text() == "0 of 2 + 1 part"
        await pilot.press("asterisk")
        assert screen.table.marks == {TRIALS[0].name}
        await pilot.press("escape")
        for typed, found in (("pipeline", NIGHTLY), ("tuning", SWEEP), ("custom", OTHER)):
            await pilot.press("slash", *f"kind:{typed}", "enter")
            await until(pilot, lambda name=found.name: name in screen.table.keys, typed)
            kinds = {
                app.store.jobs[key].kind for key in screen.table.keys if key not in screen.rows.tree.dimmed
            }
            assert kinds == {found.kind}
            await pilot.press("escape")


async def test_a_folded_job_says_what_it_is_acted_on_with(tmp_path: Path) -> None:
    found = backend()
    async with opened(found, tmp_path) as (app, pilot):
        await until(pilot, lambda: names(app)[1:] == ["▸ nightly  4 parts"], "the list")
        await pilot.press("j", "space")
        assert "1 marked with 4 parts" in lines(app)
        await pilot.press("c")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen), "the question")
        assert question(app) == "Cancel nightly (2 parts, 1 of them running), with 3 running jobs in all?"
        await pilot.press("y")
        await until(pilot, lambda: toasts(app), "the message")
        # The service ends the parts.
        assert found.cancelled == [NIGHTLY.name]
        await until(pilot, lambda: app.store.jobs[NIGHTLY.name].state.terminal, "the end")
        await pilot.press("D")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen), "the question")
        assert question(app).endswith(", whose 4 jobs stay?")
