"""A job's screen when its job or the screen itself goes: deletions from elsewhere, a screen left early."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.ui.double import console, job
from tests.ui.job_screen_support import backend_of, footer, header, opened, tab, text_of
from tests.ui.jobs_screen_support import said, until
from tui.config.settings import Context
from tui.domain.core.states import JobState
from tui.screens.dialogs.confirm import ConfirmScreen
from tui.screens.job.logs import LogsPane
from tui.screens.jobs.screen import JobsScreen


async def test_a_job_that_was_deleted_elsewhere_says_so(tmp_path: Path) -> None:
    backend = backend_of()
    async with opened(backend, tmp_path) as (screen, pilot):
        backend.stored.clear()
        screen.feed.kick()
        await until(pilot, lambda: "deleted" in header(screen), "the word")
        assert screen.is_current


async def test_an_ended_job_that_another_console_deletes_is_said_to_be_deleted(tmp_path: Path) -> None:
    backend = backend_of(job(7, "local-2node", JobState.SUCCEEDED, age=90, ended=60))
    name = next(iter(backend.stored))
    async with opened(backend, tmp_path) as (screen, pilot):
        await until(pilot, lambda: screen.feed.sources["job"].done, "the last reading of an ended job")
        await tab(screen, pilot, LogsPane)
        assert footer(screen).startswith("D delete  C clone  f follow")
        backend.stored.clear()
        backend.gone.append(name)
        screen.console.connection.again()
        await until(pilot, lambda: "local-2node was deleted." in text_of(screen, "#gone"), "the notice")
        assert "deleted" in header(screen) and "D delete" not in footer(screen)
        await pilot.press("D", "c", "C")
        await pilot.pause()
        assert screen.is_current and "local-2node was deleted." in said(screen.app)
        assert backend.deleted == [] and not (tmp_path / "audit.jsonl").exists()


async def test_ctrl_r_reads_an_ended_job_again(tmp_path: Path) -> None:
    backend = backend_of(job(7, "local-2node", JobState.SUCCEEDED, age=90, ended=60))
    async with opened(backend, tmp_path) as (screen, pilot):
        await until(pilot, lambda: screen.feed.sources["job"].done, "the last reading of an ended job")
        backend.stored.clear()
        await pilot.press("ctrl+r")
        await until(pilot, lambda: screen.feed.gone, "the end of the job")


async def test_a_delete_that_comes_second_says_so(tmp_path: Path) -> None:
    backend = backend_of(job(7, "local-2node", JobState.SUCCEEDED, age=90, ended=60))
    async with opened(backend, tmp_path) as (screen, pilot):
        await pilot.press("D")
        await until(pilot, lambda: isinstance(screen.app.screen, ConfirmScreen), "the question")
        backend.stored.clear()
        await pilot.press("y")
        words = "Delete failed: local-2node was already deleted."
        await until(pilot, lambda: words in said(screen.app), "what was found")
        last = json.loads((tmp_path / "audit.jsonl").read_text().splitlines()[-1])
        assert (last["action"], last["result"], last["code"]) == ("job.delete", "failed", "NOT_FOUND")


@pytest.mark.parametrize("local", [True, False])
async def test_an_ended_job_that_a_verb_deletes_is_missed_by_its_own_screen(
    tmp_path: Path, local: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a kick nor the list tells of it."""
    monkeypatch.setattr(f"tui.store.job.feed.{'ENDED_LOCAL' if local else 'ENDED_CLOUD'}", 0.05)
    backend = backend_of(job(7, "local-2node", JobState.SUCCEEDED, age=90, ended=60))
    backend.info = replace(backend.info, local=local)
    async with opened(backend, tmp_path) as (screen, pilot):
        await until(pilot, lambda: screen.feed.sources["job"].done, "the last reading of an ended job")
        backend.stored.clear()
        await until(pilot, lambda: "local-2node was deleted." in text_of(screen, "#gone"), "the notice")
        assert "D delete" not in footer(screen)


async def test_another_context_from_the_screen_of_a_job(tmp_path: Path) -> None:
    """The command closes the screen that it was typed on, and then has nothing to update there."""
    here, there = Context(name="test", project="p"), Context(name="other", project="p")
    async with opened(backend_of(), tmp_path, context=here, contexts=[here, there]) as (screen, pilot):
        app = screen.console
        await pilot.press("colon", *"context other", "enter")
        await until(pilot, lambda: app.context_name == "other" and not screen.is_running, "the other")
        assert isinstance(app.screen, JobsScreen)
        screen.refresh_frame()
        assert screen.is_mounted and not screen.has_widgets


@pytest.mark.parametrize("turns", range(4))
async def test_a_screen_that_is_left_while_it_opens_fails_nowhere(tmp_path: Path, turns: int) -> None:
    """Leave after so many turns of the event loop."""
    backend = backend_of()
    app = console(backend, tmp_path)
    name = next(iter(backend.stored))
    async with app.run_test() as pilot:
        await until(pilot, lambda: name in app.store.jobs, "the list")
        app.open_job(name)
        for _ in range(turns):
            await asyncio.sleep(0)
        app.close_to_list()
        await pilot.pause()
        assert isinstance(app.screen, JobsScreen)
