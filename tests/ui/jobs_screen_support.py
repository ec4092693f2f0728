"""What several tests share with test_jobs_screen."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from tests.ui.double import (
    MemoryBackend,
    console,
    progress_is_known,
)
from tests.waiting import LIMIT
from tui.app import VxtuiApp
from tui.store.jobs.connection_state import ConnectionState
from tui.widgets.header_lines import HeaderLines
from tui.widgets.key_footer import KeyFooter
from tui.widgets.table.table import Table
from tui.widgets.toasts import TopicNotification


async def until(pilot: Pilot[Any], look: Callable[[], object], what: str, seconds: float = LIMIT) -> None:
    """Wait for a condition, not for time; then for what follows from it to be painted."""
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s in vain for {what}"
        await pilot.pause(0.02)
    await pilot.pause()


@asynccontextmanager
async def opened(
    backend: MemoryBackend,
    where: Path,
    *,
    size: tuple[int, int] = (120, 40),
    notifications: bool = False,
    **more: Any,
) -> AsyncIterator[tuple[VxtuiApp, Pilot[Any]]]:
    app = console(backend, where, **more)
    async with app.run_test(size=size, notifications=notifications) as pilot:
        await until(
            pilot,
            lambda: app.connection.status.state in {ConnectionState.LIVE, ConnectionState.FAILED},
            "an answer",
        )
        await until(pilot, lambda: progress_is_known(app), "the progress of what runs")
        await pilot.pause()
        yield app, pilot


def table(app: VxtuiApp) -> Table:
    return app.screen.query_one(Table)


def shown(app: VxtuiApp) -> list[str]:
    """Display names in the order shown."""
    return [app.store.jobs[key].display_name for key in table(app).keys]


def current(app: VxtuiApp) -> str:
    return app.store.jobs[table(app).cursor or ""].display_name


def lines(app: VxtuiApp) -> str:
    """The two lines above, as text."""
    return app.screen.query_one(HeaderLines).render().plain


def painted(app: VxtuiApp) -> list[str]:
    found = table(app)
    return [found.render_line(y).text for y in range(found.size.height)]


def on_screen(app: VxtuiApp) -> str:
    """Every cell of the terminal, after all filters."""
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


def footer(app: VxtuiApp) -> str:
    return app.screen.query_one(KeyFooter).render().plain


def said(app: VxtuiApp) -> str:
    """The toasts, each as a whole."""
    return "\n".join(n.whole for n in app._notifications if isinstance(n, TopicNotification))


async def again(app: VxtuiApp, pilot: Pilot[Any]) -> None:
    """One more reading, shown."""
    assert app.connection.poller is not None
    await app.connection.poller.read_once()
    await pilot.pause()
