"""What several tests share with test_daily_use_snapshots."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.ui.double import console, progress_is_known
from tests.ui.jobs_screen_support import until
from tui.app import VxtuiApp
from tui.config.settings import Context, Settings
from tui.store.jobs.connection_state import ConnectionState
from tui.store.profiles.library import entries

LOCAL = Context("local", kind="local", project="p")
Step = Callable[[VxtuiApp, Pilot[Any]], Awaitable[None]]


@pytest.fixture
def look(tmp_path: Path, snap_compare: Any) -> Callable[..., None]:
    """Compare the console after `step` with its picture."""

    def compare(backend: Any, size: tuple[int, int], theme: str, step: Step, **more: Any) -> None:
        reader = partial(entries, tmp_path / "profiles")
        app = console(
            backend,
            tmp_path,
            settings=Settings(theme=theme),
            read_profiles=reader,
            profile_folder=Path("/home/ana/profiles"),
            **more,
        )

        async def run_before(pilot: Pilot[Any]) -> None:
            await until(pilot, lambda: app.connection.status.state is ConnectionState.LIVE, "the jobs")
            await until(pilot, lambda: progress_is_known(app), "the progress of what runs")
            await step(app, pilot)
            await pilot.pause()

        assert snap_compare(app, terminal_size=size, run_before=run_before)

    return compare
