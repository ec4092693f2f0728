"""The table of the jobs: what a change costs, groups, and columns that are chosen and folded away."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.ui.double import NOON, MemoryBackend, fleet, job, pool
from tests.ui.jobs_screen_support import again, current, lines, opened, painted, shown, table, until
from tui.domain.core.diagnosis import Diagnosis
from tui.domain.core.job import JobError
from tui.domain.core.states import JobState
from tui.domain.core.training_progress import Progress
from tui.domain.fields.field import columns
from tui.domain.fields.job_row import JobRow
from tui.domain.fields.jobs import job_fields, progress_cell
from tui.widgets.filter_bar import FilterBar
from tui.widgets.table.cells import content
from tui.widgets.table.columns import GAP, place
from tui.widgets.table.table import Table


async def test_ten_thousand_jobs_cost_what_changed(tmp_path: Path) -> None:
    many = [job(n, f"job-{n:05}", JobState.SUCCEEDED, age=n + 10) for n in range(3000)]
    backend = MemoryBackend(many)
    async with opened(backend, tmp_path) as (app, pilot):
        await until(pilot, lambda: len(shown(app)) == 3000, "all of them")
        made: list[str] = []
        rows = app.screen.rows  # type: ignore[attr-defined]
        original = rows._job_cells
        rows._job_cells = lambda job, now: made.append(job.name) or original(job, now)
        ordered = table(app).keys
        backend.change(many[5].name, labels={"seen": "yes"})
        backend.change(many[2500].name, labels={"seen": "yes"})
        await again(app, pilot)
        await until(pilot, lambda: made, "the row in view")
        assert made == [many[5].name] and table(app).keys is ordered
        await pilot.press("G")
        assert current(app) == "job-02999" and len(made) < 100
        assert "3,000" in lines(app)


async def test_groups_open_and_close(tmp_path: Path) -> None:
    backend = MemoryBackend(fleet(), regions=("us-central1", "europe-west4"))
    async with opened(backend, tmp_path) as (app, pilot):
        await pilot.press("b")
        assert "by region" in lines(app)
        heads = [key for key in table(app).keys if key.startswith("group ")]
        assert heads == ["group test/europe-west4", "group test/us-central1"] and len(table(app).keys) == 9
        await pilot.press("g", "enter")
        assert table(app).cursor == heads[0] and len(table(app).keys) == 7
        assert "7" in lines(app)
        assert "test/europe-west4" in painted(app)[1] and "1 ○ queued" in painted(app)[1]
        await pilot.press("c", "space", "asterisk")
        assert not any(key.startswith("group ") for key in table(app).marks) and len(table(app).marks) == 5
        await pilot.press("escape", "g", "enter")
        assert len(table(app).keys) == 9
        await pilot.press("b")
        assert "group succeeded" in table(app).keys
        backend.change(fleet()[0].name, state=JobState.SUCCEEDED)
        await again(app, pilot)
        assert "group running" not in table(app).keys
        await pilot.press("b")
        assert len(table(app).keys) == 7


async def test_columns_are_chosen_sorted_by_and_folded_away(tmp_path: Path) -> None:
    backend = MemoryBackend(fleet(), regions=("us-central1", "europe-west4"))
    async with opened(backend, tmp_path) as (app, pilot):
        header = painted(app)[0]
        assert "NAME" in header and "REGION" in header
        await pilot.press("right", "right", "right", "s")
        assert "sorted by region" in lines(app)
        await pilot.press("z")
        assert "REGION" not in painted(app)[0] and painted(app)[0].startswith("+ ")
        await pilot.press("escape", "Z")
        assert "REGION" in painted(app)[0] and "+" not in painted(app)[0]
        at = painted(app)[0].index("NAME")
        await pilot.click(Table, offset=(at, 0))
        assert "sorted by name ▲" in lines(app)
        await pilot.click(Table, offset=(at, 0))
        assert "sorted by name ▼" in lines(app)


async def test_the_last_column_is_right_beside_the_scroll_bar(tmp_path: Path) -> None:
    many = [job(n, f"job-{n:03}", age=n + 1) for n in range(100)]
    async with opened(MemoryBackend(many), tmp_path, size=(80, 24)) as (app, _):
        found = table(app)
        last = found._placed[-1]
        assert found.show_vertical_scrollbar
        assert last.x + last.width == found.size.width - 1 == found.region.width - 1
        assert all(len(line) == found.size.width for line in painted(app))


async def test_columns_chosen_while_the_table_is_hidden_fit_when_it_is_shown(tmp_path: Path) -> None:
    """A list that is empty for a moment hides its table, and may get other columns meanwhile."""
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, pilot):
        found = table(app)
        before = painted(app)[0]
        found.display = False
        await until(pilot, lambda: not found.size, "the table to be hidden")
        found.use([*found.columns[:3], *found.columns[4:]])
        found.use([*columns(job_fields((), contexts=False, ids=False))[:-1], *found.columns[-1:]])
        found.display = True
        await until(pilot, lambda: bool(found.size), "the table to be shown")
        assert painted(app)[0] == before


def test_a_cost_is_shown_whole_or_not_at_all() -> None:
    natural = {"cost": 11, "name": 30, "progress": 40, "replicas": 9}
    seen = set()
    for room in range(40, 260):
        placed = {
            each.column.key: each
            for each in place(columns(job_fields((), contexts=False, ids=False)), natural, room)
        }
        assert sum(each.width + GAP for each in placed.values()) <= room
        if "cost" in placed:
            seen.add(placed["cost"].width)
    assert seen == {11}


async def test_a_list_that_was_empty_gets_the_keys_again(tmp_path: Path) -> None:
    jobs = [job(n, f"job-{n}", age=n + 1) for n in range(3)]
    backend = MemoryBackend(jobs)
    async with opened(backend, tmp_path) as (app, pilot):
        for one in jobs:
            await backend.jobs["custom_job"].delete(one.name)
        await again(app, pilot)
        await until(pilot, lambda: not table(app).display, "the empty list")
        await pilot.press("j", "x")
        assert not app.screen.query_one(FilterBar).text, "and no line that is not in sight has them"
        backend.stored = {one.name: one for one in jobs}
        await again(app, pilot)
        await until(pilot, lambda: app.screen.focused is table(app), "the list to have the keys")
        await pilot.press("G")
        assert current(app) == "job-2"


def test_a_job_that_waits_for_a_persistent_resource_says_so() -> None:
    waiting = replace(
        job(1, "a"), state=JobState.PENDING, create_time=NOON - timedelta(minutes=5), start_time=None
    )
    assert progress_cell(JobRow(waiting, NOON)).words == "provisioning, 5m"
    assert (
        progress_cell(JobRow(replace(waiting, persistent_resource="mine"), NOON)).words
        == "waits for mine, 5m"
    )
    queued = replace(waiting, persistent_resource="mine", state=JobState.QUEUED)
    assert progress_cell(JobRow(queued, NOON)).words == "no quota yet, 5m"


@pytest.mark.parametrize("width", [120, 160])
async def test_a_job_that_runs_after_a_failure_says_so_beside_its_progress(
    tmp_path: Path, width: int
) -> None:
    more: dict[str, Any] = {"progress": Progress(220, 1000), "groups": (pool(0, 1, "NVIDIA_TESLA_A100", 8),)}
    fine, failed, often = job(1, "fine", **more), job(2, "failed", **more), job(3, "often", **more)
    failed = replace(failed, diagnosis=Diagnosis("It ran out.", "Raise it.", short="OOM worker-2"))
    often = replace(often, replicas=tuple(replace(each, restarts=4) for each in often.replicas[:1]))
    async with opened(MemoryBackend([fine, failed, often]), tmp_path, size=(width, 24)) as (app, _):
        rows = {
            name: next(line for line in painted(app) if name in line) for name in ("fine", "failed", "often")
        }
    assert "22 %  OOM worker-2 " in rows["failed"] and "22 %  restarted 4× " in rows["often"]
    assert "restarted" not in rows["fine"]
    over = replace(often, state=JobState.SUCCEEDED)
    assert "restarted" not in progress_cell(JobRow(over, NOON)).words


async def test_empty_and_constant_columns_give_their_room_to_the_reason(tmp_path: Path) -> None:
    why = "OOM of the loader of the data at rank 3"
    jobs = [
        replace(job(number, f"job-{number}", JobState.FAILED), diagnosis=Diagnosis(why, "", short=why))
        for number in range(3)
    ]
    jobs = [replace(each, error=JobError(9, "failed"), groups=(pool(0, 1),)) for each in jobs]
    backend = MemoryBackend(jobs)
    async with opened(backend, tmp_path, size=(100, 24)) as (app, pilot):
        head, *rows = painted(app)
        assert not {"ACCEL", "REGION", "STRATEGY", "LOSS", "RAN"} & set(head.split())
        assert all(why in row for row in rows[:3])
        backend.change(jobs[0].name, groups=(pool(0, 1, "NVIDIA_L4", 1),))
        await again(app, pilot)
        await until(pilot, lambda: "ACCEL" in painted(app)[0], "the column")


def test_a_line_of_progress_says_what_is_left() -> None:
    at = NOON - timedelta(seconds=60)
    running = replace(job(1, "a"), progress=Progress(470, 1000, updated_at=at, pace=15.0))
    assert content(progress_cell(JobRow(running, NOON))).plain == "━━━╌╌╌ 47 %  2h11"
    nearly = replace(running, progress=Progress(9_999, 10_000))
    assert content(progress_cell(JobRow(nearly, NOON))).plain == "━━━━━╌ 99 %"
    ended = replace(running, state=JobState.SUCCEEDED, progress=Progress(120, 120), end_time=NOON)
    assert content(progress_cell(JobRow(ended, NOON))).plain == "120 steps in 59m"
    cancelled = replace(ended, state=JobState.CANCELLED, progress=Progress(30, 120))
    assert content(progress_cell(JobRow(cancelled, NOON))).plain == "30 of 120 steps in 59m"
