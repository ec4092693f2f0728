"""A screen that another one covers is not drawn below it nor kept up to date; a list below a dialog is."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from typing import ClassVar

from tests.ui.double import MemoryBackend, fleet
from tests.ui.jobs_screen_support import opened, until
from tui.domain.core.states import JobState
from tui.screens.console import preload
from tui.screens.dialogs.help import HelpScreen
from tui.screens.job.screen import JobScreen
from tui.screens.jobs.screen import JobsScreen
from tui.widgets.table.job_table import JobTable


async def test_a_list_is_not_seen_below_a_job_but_below_a_dialog(tmp_path: Path) -> None:
    backend = MemoryBackend(fleet())
    async with opened(backend, tmp_path) as (app, pilot):
        jobs = app.screen
        assert isinstance(jobs, JobsScreen) and jobs.is_current
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen), "the help")
        assert jobs.is_current
        await pilot.press("escape")
        name = jobs.query_one(JobTable).keys[0]
        app.open_job(name)
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job, "the job")
        # One that lets the list shine through would have the list drawn for each of its own frames.
        assert app.screen.styles.background.a == 1 and not jobs.is_current
        backend.change(name, state=JobState.FAILED)
        assert app.connection.poller is not None
        app.connection.poller.kick()
        await until(pilot, lambda: app.store.jobs[name].state is JobState.FAILED, "the change")
        await pilot.press("escape")
        await until(pilot, lambda: "failed" in _row(jobs, name), "the change in the list")


async def test_what_a_job_opens_later_is_imported_once_no_key_comes() -> None:
    class Keys:
        """The second look finds that no key has come for long."""

        answers: ClassVar[list[float]] = [0.0, preload.PAUSE * 0.9, preload.PAUSE]

        def quiet_for(self) -> float:
            return self.answers.pop(0)

    # A module that nothing else imports.
    assert "this" not in sys.modules
    with contextlib.redirect_stdout(io.StringIO()):
        await preload.import_in_pause(Keys(), ("this",))
    assert "this" in sys.modules and not Keys.answers


def _row(jobs: JobsScreen, name: str) -> str:
    return str(jobs.query_one(JobTable).cells_of(name)["state"])
