"""A tuning job on the screens: trials below their job in the list, the best first in its own tab."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from textual.content import Content

from tests.ui.double import NOON, console
from tests.ui.jobs_screen_support import until
from tests.ui.training_pipeline_support import column, question, seen
from tests.ui.tuning_job_support import STUDY, SWEEP, backend, child, on_trials
from tui.domain.core.log_entry import LogEntry, Severity
from tui.domain.core.states import JobState
from tui.domain.tuning.study import StudyParameter, trials_of
from tui.screens.dialogs.confirm import ConfirmScreen
from tui.screens.dialogs.pick import PickScreen
from tui.screens.dialogs.prompt import PromptScreen
from tui.screens.job.screen import JobScreen
from tui.screens.jobs.screen import JobsScreen
from tui.screens.tuning.trials import TrialsPane


def cell(pane: TrialsPane, trial: str, key: str) -> str:
    found = pane.table_view.cells_of(trial)[key]
    return found.plain if isinstance(found, Content) else str(found)


async def test_its_trials_are_folded_below_it_and_counted_once(tmp_path: Path) -> None:
    app = console(backend(), tmp_path)
    async with app.run_test(size=(160, 40)) as pilot:
        await until(pilot, lambda: len(app.store.jobs) == 7, "the list")
        await until(pilot, lambda: app.costs.prices is not None, "the prices")
        await pilot.pause()
        assert column(app, "name") == ["▸ sweep  6 parts"]
        # Two trials run: so many machines, and they are counted with the job.
        assert column(app, "replicas") == ["2×1+1"]
        screen = app.screen
        assert isinstance(screen, JobsScreen)
        assert screen.count_text() == "1 + 6 parts"
        assert "1 running" in "".join(str(part) for part in screen.top_line())
        await pilot.press("f")
        assert column(app, "name") == ["▾ sweep", *(f"└ trial-{number}" for number in (6, 5, 4, 3, 2, 1))]
        assert column(app, "cost")[1:] == [""] * 6
        await pilot.press("j", "f")
        assert column(app, "name") == ["▸ sweep  6 parts"]
        await pilot.press("slash", *"kind:custom", "enter")
        trials = ["sweep", *(f"└ trial-{number}" for number in (6, 5, 4, 3, 2, 1))]
        await until(pilot, lambda: column(app, "name") == trials, "the trials below what they are part of")
        assert screen.count_text() == "0 of 1 + 6 parts"


async def test_the_best_trial_leads_and_the_failed_one_says_why(tmp_path: Path) -> None:
    app = console(backend(), tmp_path)
    async with app.run_test(size=(160, 40)) as pilot:
        pane = await on_trials(pilot, app)
        assert list(pane.table_view.keys) == ["4", "6", "2", "5", "1", "3"]
        assert cell(pane, "4", "id") == "★ 4" and cell(pane, "4", "m:loss") == "2.5"
        assert cell(pane, "3", "m:loss") == "·" and "no finite value" in cell(pane, "3", "reason")
        assert cell(pane, "2", "p:optimizer") == "adamw" and cell(pane, "1", "p:optimizer") == "sgd [old]"
        assert cell(pane, "1", "duration") == "2m" and cell(pane, "1", "cost").startswith("~$")
        assert "4 of 8 trials ended   2 running   best loss 2.5 by trial 4" in pane.status().plain
        assert "Best loss so far" in seen(app)
        await pilot.press("s")
        assert list(pane.table_view.keys) == ["6", "5", "4", "3", "2", "1"]
        await pilot.press("G", "b")
        assert pane.table_view.cursor == "4"


async def test_pictures_follow_one_another(tmp_path: Path) -> None:
    app = console(backend(), tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await on_trials(pilot, app)
        await pilot.press("v")
        assert "loss by lr (log)" in seen(app)
        await pilot.press("v")
        assert "loss by optimizer" in seen(app)
        await pilot.press("v")
        # Three trials have a result, and one more is needed.
        await until(pilot, lambda: "4 trials must have a result; 3 have a result" in seen(app), "the reason")
        await pilot.press("v")
        assert "loss by" not in seen(app) and "Best" not in seen(app)


async def test_a_trial_is_opened_stopped_and_cloned(tmp_path: Path) -> None:
    found = backend()
    app = console(found, tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        pane = await on_trials(pilot, app)
        await pilot.press("X")
        assert "! Trial 4 has ended." in [note.message for note in app._notifications]
        pane.table_view.move_to("6")
        await pilot.press("X")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen), "the question")
        assert question(app) == "Cancel sweep-trial-6 (2 replicas)?"
        await pilot.press("y")
        await until(pilot, lambda: found.cancelled, "the cancel")
        assert found.cancelled == [child(6).name]
        await pilot.press("b", "B")
        await until(pilot, lambda: isinstance(app.screen, PromptScreen), "the name")
        await pilot.press("escape", "enter")
        await until(
            pilot,
            lambda: isinstance(app.screen, JobScreen) and app.screen.job_name == child(4).name,
            "the trial's own screen",
        )


async def test_the_overview_has_the_study_and_no_figures_are_asked_for(tmp_path: Path) -> None:
    found = backend()
    app = console(found, tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await on_trials(pilot, app)
        screen = app.screen
        assert isinstance(screen, JobScreen)
        assert list(screen.panes) == ["overview", "tasks", "logs", "spec", "events"]
        screen.action_tab_overview()
        await pilot.pause()
        for words in ("minimize loss", "4 of 8 trials", "loss 2.5 trial 4", "lr 0.0001 … 0.1 log"):
            assert words in seen(app), words
        await until(pilot, lambda: found.queries, "the log")
        assert {query.job_name for query in found.queries} == {SWEEP.name}


async def test_its_log_has_the_lines_of_the_trials_with_their_ids(tmp_path: Path) -> None:
    found = backend()
    found.entries.clear()
    step = '{"message": "step 9", "vxtui": {"kind": "step", "step": 9, "total_steps": 10, "loss": 2.5}}'
    found.say(
        LogEntry(NOON, "a", "service", Severity.INFO, "Trial 6 started"),
        LogEntry(NOON + timedelta(seconds=1), "b", "6/workerpool0-0", Severity.INFO, "of six"),
        LogEntry(
            NOON + timedelta(seconds=2), "c", "5/workerpool0-0", Severity.INFO, "step 9", json.loads(step)
        ),
    )
    app = console(found, tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await on_trials(pilot, app)
        screen = app.screen
        assert isinstance(screen, JobScreen)
        screen.action_tab_logs()
        await until(pilot, lambda: "6/0-0 of six" in seen(app), "the lines")
        assert "5/0-0 step 9/10" in seen(app)
        assert all(query.tasks for query in found.queries)
        # The steps of a trial are no progress of the study.
        assert not screen.feed.training_steps
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, PickScreen), "the trials")
        await pilot.press(*"5/work", "enter")
        await until(pilot, lambda: "of six" not in seen(app), "the trial's lines alone")
        assert "5/0-0 step 9/10" in seen(app)


@pytest.mark.parametrize("width", [80, 120, 200])
async def test_columns_leave_room_for_the_metric(tmp_path: Path, width: int) -> None:
    app = console(backend(), tmp_path)
    async with app.run_test(size=(width, 24)) as pilot:
        await on_trials(pilot, app)
        assert "LOSS" in seen(app) and "TRIAL" in seen(app)


async def test_of_many_parameters_the_first_ones_and_the_costs_stay(tmp_path: Path) -> None:
    many = tuple(StudyParameter(f"parameter_{number}", "double", 0.0, 1.0) for number in range(13))
    trials = tuple(replace(each, parameters={"parameter_0": 0.5}) for each in SWEEP.tasks)
    found = backend()
    found.stored[SWEEP.name] = replace(SWEEP, details=replace(STUDY, parameters=many), tasks=trials)
    app = console(found, tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        pane = await on_trials(pilot, app)
        await until(pilot, lambda: pane._trials_table.placed_columns, "the columns")
        shown = pane._trials_table.placed_columns
        assert {"p:parameter_0", "p:parameter_1", "p:parameter_2", "duration", "cost"} <= shown
        assert "p:parameter_12" not in shown
        hidden = 13 - sum(key.startswith("p:") for key in shown)
        assert f"{hidden} parameters not shown" in pane.status().plain


def test_a_grid_that_is_through_has_no_more_trials() -> None:
    through = replace(SWEEP, state=JobState.SUCCEEDED, tasks=SWEEP.tasks[:3])
    assert trials_of(SWEEP) == 8 and trials_of(through) == 3
    assert trials_of(replace(through, tasks=())) == 8
