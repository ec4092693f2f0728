"""What several tests share with test_profiles_screen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from tests.ui.double import MemoryBackend
from tests.ui.jobs_screen_support import opened, table, until
from tui.app import VxtuiApp
from tui.screens.launch.screen import LaunchScreen
from tui.store.profiles.library import entries


@asynccontextmanager
async def profiles(
    backend: MemoryBackend, where: Path, monkeypatch: pytest.MonkeyPatch, **more: Any
) -> AsyncIterator[tuple[VxtuiApp, Pilot[Any], list[str]]]:
    """The profiles screen, and the jobs that are opened from it."""
    reader = partial(entries, where / "profiles")
    async with opened(backend, where, read_profiles=reader, **more) as (app, pilot):
        went: list[str] = []
        monkeypatch.setattr(app, "open_job", went.append)
        await pilot.press("2")
        await until(pilot, lambda: table(app).keys, "the profiles")
        yield app, pilot, went


async def choose(app: VxtuiApp, pilot: Pilot[Any], name: str) -> None:
    entry = next(e for e in app.profiles.entries if e.name == name)
    table(app).move_to(entry.key)
    await pilot.pause()


async def launch_screen(app: VxtuiApp, pilot: Pilot[Any], name: str) -> None:
    """The launch screen of the profile `name`."""
    await choose(app, pilot, name)
    await pilot.press("l")
    await until(pilot, lambda: isinstance(app.screen, LaunchScreen), "the launch screen")


def text(app: VxtuiApp, selector: str) -> str:
    return str(app.screen.query_one(selector, Static).content)
