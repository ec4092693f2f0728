"""Schedules by keys: the list, details, runs, pause, resume and delete; and how it looks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.ui.double import MemoryBackend, console
from tests.ui.jobs_screen_support import lines, on_screen, opened, painted, table, until
from tests.ui.schedules_double import PLACE, backend, some
from tui.backends.interface import PermissionDenied
from tui.config.settings import Context, Settings
from tui.screens.dialogs.confirm import ConfirmScreen
from tui.screens.dialogs.message import MessageScreen
from tui.screens.dialogs.pick import PickScreen
from tui.screens.schedules.screen import SchedulesScreen
from tui.store.jobs.connection_state import ConnectionState

NAMES = [each.name for each in some()]


async def go(pilot: Pilot[Any], app: Any) -> None:
    await pilot.press("colon", *"schedules", "enter")
    await until(
        pilot, lambda: isinstance(app.screen, SchedulesScreen) and len(table(app).keys) == 6, "the schedules"
    )


async def test_the_list_says_when_each_runs_and_what_the_last_came_to(tmp_path: Path) -> None:
    made, service = backend()
    async with opened(made, tmp_path) as (app, pilot):
        await go(pilot, app)
        rows = painted(app)
        assert "● active" in rows[1] and "in 14h30" in rows[1] and "12/30" in rows[1]
        assert "✓ succeeded" in rows[1] and "9h30" in rows[1]
        assert "3m late" in rows[2] and "4021" in rows[2] and "● running" in rows[2]
        assert "○ paused" in rows[3] and " in " not in rows[3] and "✗ failed" in rows[3]
        assert "✓ completed" in rows[4] and "1/1" in rows[4]
        assert "in 20d" in rows[5] and "✗ not started" in rows[6]
        await pilot.press("slash", *"kolkata", "enter")
        await until(pilot, lambda: table(app).keys == [NAMES[1]], "the one in its zone")
        assert "1 of 6 schedules" in lines(app)
        await pilot.press("escape")
        service.errors = {"us-central1": PermissionDenied("no list")}
        service.found.clear()
        await pilot.press("ctrl+r")
        # What was read before stays.
        await until(pilot, lambda: "can't be read" in on_screen(app), "the reason")
        assert table(app).keys == NAMES


async def test_a_schedule_opens_its_last_run_its_runs_and_its_details(tmp_path: Path) -> None:
    made, _ = backend()
    async with opened(made, tmp_path) as (app, pilot):
        went: list[tuple[str, str]] = []
        app.open_job = lambda name, replica="", job=None: went.append((name, job.kind))  # type: ignore
        await go(pilot, app)
        await pilot.press("enter")
        assert went == [(f"{PLACE}/pipelineJobs/901", "pipeline_job")]
        await pilot.press("R")
        await until(pilot, lambda: isinstance(app.screen, PickScreen), "the runs")
        await pilot.press("down", "enter")
        assert went[1:] == [(f"{PLACE}/pipelineJobs/800", "pipeline_job")]
        await pilot.press("j", "d")
        assert isinstance(app.screen, MessageScreen)
        text = app.screen._text
        for words in ("TZ=Asia/Kolkata */15", "Asia/Kolkata", "3m late", "at most 2 at once; others wait"):
            assert words in text, text
        await pilot.press("escape", "j", "j", "j", "enter")
        assert len(went) == 2, "no run has started"


async def test_pause_resume_and_delete_ask_and_are_operations(tmp_path: Path) -> None:
    made, service = backend()
    async with opened(made, tmp_path) as (app, pilot):
        await go(pilot, app)
        await pilot.press("p")
        assert (
            isinstance(app.screen, ConfirmScreen) and "Pause nightly [nlp] (At 02:30" in app.screen._question
        )
        await pilot.press("y")
        await until(pilot, lambda: "○ paused" in painted(app)[1], "the pause")
        await pilot.press("j", "j", "p")
        assert isinstance(app.screen, PickScreen)
        # Two Mondays have gone by.
        assert "without the 2 runs" in on_screen(app)
        await pilot.press("down", "enter")
        await until(pilot, lambda: "● active" in painted(app)[3], "the schedule to go on")
        await pilot.press("j", "p")
        assert not isinstance(app.screen, (ConfirmScreen, PickScreen)), "it is completed"
        await pilot.press("D")
        assert isinstance(app.screen, ConfirmScreen) and "Its runs stay" in app.screen._question
        await pilot.press("y")
        await until(pilot, lambda: len(table(app).keys) == 5, "the deletion")
        assert service.done == [
            ("pause", NAMES[0]), ("resume", NAMES[2], "True"), ("delete", NAMES[3]),
        ]  # fmt: skip
        audit = (tmp_path / "audit.jsonl").read_text()
        assert all(f'"schedule.{each}"' in audit for each in ("pause", "resume", "delete"))


async def test_a_read_only_context_and_one_without_the_service(tmp_path: Path) -> None:
    made, service = backend()
    async with opened(made, tmp_path, settings=Settings(read_only=True)) as (app, pilot):
        await go(pilot, app)
        await pilot.press("p", "D")
        assert not isinstance(app.screen, ConfirmScreen) and not service.done
    async with opened(MemoryBackend(), tmp_path) as (app, pilot):
        await pilot.press("colon", *"schedules", "enter")
        assert not isinstance(app.screen, SchedulesScreen)


LOOKS = {
    "small": ((80, 24), "vxtui-dark", ()),
    "usual": ((120, 40), "vxtui-dark", ("j",)),
    "large": ((200, 60), "vxtui-light", ()),
    "details": ((120, 40), "vxtui-dark", ("j", "d")),
}


@pytest.mark.parametrize("name", LOOKS)
def test_the_screen(name: str, tmp_path: Path, snap_compare: Any) -> None:
    size, theme, keys = LOOKS[name]
    made, _ = backend()
    here = Context("test", project="p", kind="vertex")
    app = console(made, tmp_path, context=here, settings=Settings(theme=theme))

    async def ready(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: app.connection.status.state is ConnectionState.LIVE, "the connection")
        await until(pilot, lambda: len(app.store.jobs) == 5, "the jobs")
        await go(pilot, app)
        await until(pilot, lambda: app.screen.focused is table(app), "the focus")
        await pilot.press(*keys)
        app.clear_notifications()
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=ready)
