"""The console on the emulator, by keys: what it paints is looked at cell by cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import thread_time
from typing import Any

from textual.pilot import Pilot

from tests.ui.test_jobs_screen import until
from tui.app import VxtuiApp
from tui.backends.factory import open_backend
from tui.config.paths import config_dir, shipped, state_dir
from tui.config.settings import Settings, all_contexts
from tui.config.themes import cached_themes
from tui.screens.job.screen import JobScreen
from tui.screens.jobs.screen import JobsScreen

SIZE = (80, 24)
KEYS = (
    "j", "k", "G", "g", "pagedown", "pageup", "enter", "w", "J", "t", "R", "s", "n", "e", "r", "plus", "h",
    "l", "minus", "0", "question_mark", "space", "slash", "a", "f", "W", "o", "T", "u", "m",
)  # fmt: skip
"""Keys that change nothing outside the console, some of them pressed on every tab."""
TABS = 6


@dataclass
class Seconds:
    """CPU of the console's thread, by key, in seconds: what else the machine does is not in it."""

    of_keys: dict[str, list[float]] = field(default_factory=dict)

    def add(self, key: str, seconds: float) -> None:
        self.of_keys.setdefault(key, []).append(seconds)


def app_of(home: Path) -> VxtuiApp:
    """The console as the command makes it, without a terminal."""
    themes, problems = cached_themes([shipped("themes"), config_dir() / "themes"])
    assert not problems
    found = Settings()
    contexts = all_contexts(found)
    return VxtuiApp(
        found, contexts[0], opener=open_backend, contexts=contexts, state_dir=state_dir(), read_profiles=list,
        profile_folder=home / "profiles", themes=themes,
    )  # fmt: skip


async def look_at(names: list[str], home: Path, unsafe: Callable[[str], bool], keys: int) -> Seconds:
    """Open each job, press some keys on each of its tabs.

    Raises:
        AssertionError: for a control character on the screen, or an error of the console.
    """
    app, seconds = app_of(home), Seconds()
    chosen = Random(" ".join(names))
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: all(name in app.store.jobs for name in names), "the list")
        check(app, unsafe)
        for name in names:
            for at in range(TABS):
                await _open(app, pilot, name, at)
                for key in chosen.choices(KEYS, k=keys):
                    began = thread_time()
                    await pilot.press(key)
                    seconds.add(key, thread_time() - began)
                    check(app, unsafe)
                await _leave(app, pilot)
        assert app.return_code is None
    return seconds


async def _open(app: VxtuiApp, pilot: Pilot[Any], name: str, tab: int) -> None:
    app.open_job(name)
    await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.is_mounted, "the job")
    screen = app.screen
    assert isinstance(screen, JobScreen) and len(screen.panes) == TABS
    await until(pilot, lambda: screen.feed.sources["logs"].done, "its log")
    for _ in range(tab):
        await pilot.press("right_square_bracket")


async def _leave(app: VxtuiApp, pilot: Pilot[Any]) -> None:
    """Back to the jobs by the key for it, out of whatever is open."""
    for _ in range(10):
        if isinstance(app.screen, JobsScreen):
            return
        await pilot.press("escape")
    raise AssertionError(f"escape does not leave {app.screen}")


def check(app: VxtuiApp, unsafe: Callable[[str], bool]) -> None:
    """Look at every cell of the screen."""
    for line in app.screen._compositor.render_strips():
        for segment in line:
            assert not segment.control
            assert not [c for c in segment.text if unsafe(c)], segment.text
