"""What several tests share with test_job_snapshots."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.ui.job_double import JobBackend
from tests.ui.job_screen_support import settled
from tests.ui.jobs_screen_support import until
from tui.app import VxtuiApp
from tui.backends.interface import Unavailable
from tui.screens.job.logs import LogsPane
from tui.screens.job.metrics import MetricsPane
from tui.screens.job.screen import JobScreen
from tui.screens.job.spec import SpecPane
from tui.widgets.plot.chart import Chart

SMALL, USUAL, LARGE = (80, 24), (120, 40), (200, 60)
NEXT = "right_square_bracket"
TABS = {
    name: (NEXT,) * at
    for at, name in enumerate(("overview", "replicas", "logs", "metrics", "attempts", "spec", "events"))
}


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


async def ready_screen(
    pilot: Pilot[Any], *, app: VxtuiApp, backend: JobBackend, keys: tuple[str, ...], fail: Unavailable | None
) -> None:
    """Open the screen of the only job, press the keys, and wait until nothing changes."""
    name = next(iter(backend.stored))
    await until(pilot, lambda: name in app.store.jobs, "the list")
    app.open_job(name)
    await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.is_mounted, "the screen")
    screen = app.screen
    assert isinstance(screen, JobScreen)
    await settled(screen, pilot, backend)
    if fail is not None:
        backend.error = fail
        backend.say()
        screen.feed.kick()
        await until(pilot, lambda: len([s for s in screen.feed.sources.values() if s.error]) == 3, "trouble")
        # The list too: the header names the context then, not the job.
        app.connection.again()
        await until(pilot, lambda: not app.live, "the list's trouble")
    for key in keys:
        await _log_at_rest(screen, pilot)
        await pilot.press(key)
        await pilot.pause()
    pane = screen.pane
    if isinstance(pane, MetricsPane):
        await until(pilot, lambda: all(chart.is_mounted for chart in pane.query(Chart)), "the charts")
    if isinstance(pane, SpecPane):
        await until(pilot, lambda: pane.spec_view.text, "the specification")
    if isinstance(pane, LogsPane):
        await _log_at_rest(screen, pilot)
    await pilot.pause()
    await pilot.wait_for_scheduled_animations()


async def _log_at_rest(screen: JobScreen, pilot: Pilot[Any]) -> None:
    """Every line has been looked at, searched and laid out: a key that comes earlier acts on half a log."""
    pane = screen.pane
    if not isinstance(pane, LogsPane):
        return
    # How much room the log has depends on what the second's tick shows below it: not on when it comes.
    pane.tick()
    await pilot.pause()
    log = pane.log_view
    await until(
        pilot,
        lambda: (
            log.settled
            and len(log.view)
            and not log.view.unscanned
            and not log.views.searching
            and log.size.height
        ),
        "the log at rest",
    )
    await pilot.pause()
