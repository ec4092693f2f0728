"""What several tests share with test_launch_form."""

from __future__ import annotations

from typing import Any

from textual.pilot import Pilot

from tui.app import VxtuiApp
from tui.screens.launch.field import LaunchField
from tui.screens.launch.screen import LaunchScreen


def value(app: VxtuiApp, name: str) -> str:
    screen = next(s for s in app.screen_stack if isinstance(s, LaunchScreen))
    return next(f.value for f in screen.query(LaunchField) if f.field == name)


def words(app: VxtuiApp, left: int = 0, right: int | None = None) -> str:
    """What is painted between two columns, as one line."""
    strips = app.screen._compositor.render_strips()
    return " ".join(" ".join(strip.text[left:right] for strip in strips).split())


async def go_to(app: VxtuiApp, pilot: Pilot[Any], name: str) -> None:
    next(f for f in app.screen.query(LaunchField) if f.field == name).line.focus()
    await pilot.pause()
