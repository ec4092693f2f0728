"""What several tests share with test_fleet_screen."""

from __future__ import annotations

from typing import Any

from textual.pilot import Pilot

from tests.ui.jobs_screen_support import until
from tui.app import VxtuiApp
from tui.screens.fleet.screen import FleetScreen


async def fleet(app: VxtuiApp, pilot: Pilot[Any]) -> FleetScreen:
    """Key 3, and the first figures."""
    await pilot.press("3")
    await until(pilot, lambda: isinstance(app.screen, FleetScreen), "the fleet")
    screen = app.screen
    assert isinstance(screen, FleetScreen)
    await until(pilot, lambda: screen.feed is not None and screen.feed.read_at is not None, "figures")
    await pilot.pause()
    return screen
