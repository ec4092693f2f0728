"""How a tuning job looks: its trials and its overview, three sizes, dark and light. Time stands still."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.ui.double import console
from tests.ui.job_snapshots_support import _utc  # noqa: F401 - times of the pictures
from tests.ui.jobs_screen_support import until
from tests.ui.tuning_job_support import SWEEP, backend, on_trials
from tui.config.settings import Context, Settings
from tui.screens.job.screen import JobScreen

LOOKS = {
    "small": ((80, 24), "vxtui-dark", ()),
    "usual": ((120, 40), "vxtui-dark", ()),
    "light": ((120, 40), "vxtui-light", ("v",)),
    "large": ((200, 60), "vxtui-dark", ("v", "v")),
    "overview": ((120, 40), "vxtui-dark", ("left_square_bracket",)),
}


@pytest.mark.parametrize("name", LOOKS)
def test_a_tuning_job(name: str, tmp_path: Path, snap_compare: Any) -> None:
    size, theme, keys = LOOKS[name]
    here = Context("test", kind="local", project="p")
    app = console(backend(), tmp_path, context=here, settings=Settings(theme=theme))

    async def ready(pilot: Pilot[Any]) -> None:
        pane = await on_trials(pilot, app)
        await until(pilot, lambda: app.costs.prices is not None, "the prices")
        screen = app.screen
        assert isinstance(screen, JobScreen) and screen.job_name == SWEEP.name
        await until(pilot, lambda: screen.feed.progress.step is not None, "the log's figures")
        await pilot.pause()
        await pilot.press(*keys)
        focused = screen.pane.default_focus() if screen.pane is not pane else pane.table_view
        await until(pilot, lambda: screen.focused is focused, "the focus")
        app.clear_notifications()
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=ready)
