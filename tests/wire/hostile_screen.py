"""The console on the emulator, by keys: what it paints is looked at cell by cell."""

from __future__ import annotations

import asyncio
import gc
import time
import unicodedata
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import thread_time
from typing import Any

from textual import events
from textual.pilot import Pilot
from textual.widgets import Input

from tests.benchmarks.harness import percentile
from tests.ui.jobs_screen_support import until
from tests.waiting import LIMIT
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
CHARACTERS = {"plus": "+", "minus": "-", "slash": "/", "space": " ", "question_mark": "?"}
TABS = 7
PARTS = {"p50": 0.5, "p99": 0.99, "max": 1.0}


@dataclass
class KeyTimes:
    """CPU of the console's thread from a key to the paint that follows it: (key, seconds), in order.

    Not the time of a clock: what else the machine does is not in it.
    """

    of_keys: list[tuple[str, float]] = field(default_factory=list)

    def share(self, part: float) -> float:
        """The seconds below which this part (0 to 1) of the keys lies."""
        return percentile((seconds for _, seconds in self.of_keys), part)

    def words(self) -> str:
        """For a report."""
        figures = ", ".join(f"{name} {self.share(part) * 1e3:.1f} ms" for name, part in PARTS.items())
        slowest = sorted(self.of_keys, key=lambda found: -found[1])[:5]
        named = ", ".join(f"{key} {seconds * 1e3:.0f} ms" for key, seconds in slowest)
        return f"{len(self.of_keys)} keys, CPU to the paint: {figures}; slowest: {named}"

    def least(self, other: KeyTimes) -> KeyTimes:
        """Each key's lower figure of two rounds of the same keys: what costs much each time."""
        pairs = zip(self.of_keys, other.of_keys, strict=True)
        return KeyTimes([(key, min(first, second)) for (key, first), (_, second) in pairs])


async def press(app: VxtuiApp, key: str) -> float:
    """Seconds of CPU of this thread until its change is painted."""
    began = thread_time()
    app.post_message(events.Key(key, CHARACTERS.get(key, key if len(key) == 1 else None)))
    await asyncio.sleep(0)
    until = time.monotonic() + LIMIT
    while app.key_in_progress or to_paint(app):
        assert time.monotonic() < until, f"{key} is never over"
        await asyncio.sleep(0.001)
    return thread_time() - began


def to_paint(app: VxtuiApp) -> bool:
    """Whether something on the screen has changed that is not painted yet."""
    screen = app.screen
    waits = screen._layout_required or screen._repaint_required
    return waits or bool(screen._dirty_widgets or screen._compositor._dirty_regions)


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


@asynccontextmanager
async def console(home: Path) -> AsyncIterator[tuple[VxtuiApp, Pilot[Any]]]:
    """It runs until the end of the block, and has not ended by itself."""
    app = app_of(home)
    # As the command does: what was made until now is not looked at by each collection.
    gc.disable()
    async with app.run_test(size=SIZE) as pilot:
        yield app, pilot
        assert app.return_code is None


async def look_at(app: VxtuiApp, pilot: Pilot[Any], name: str, keys: int) -> KeyTimes:
    """Open a job, press some keys on each of its tabs, the same each time; what is painted is looked at.

    Raises:
        AssertionError: for a control character on the screen, or an error of the console.
    """
    times, chosen = KeyTimes(), Random(name)
    await until(pilot, lambda: name in app.store.jobs, "the job in the list")
    screen = await _open(app, pilot, name)
    for pane in screen.panes.values():
        while screen.pane is not pane:
            await press(app, "right_square_bracket")
        for key in chosen.choices(KEYS, k=keys):
            times.of_keys.append((f"{key} on {pane.TITLE}", await press(app, key)))
        check(app)
        while app.screen is not screen or isinstance(app.focused, Input):
            await press(app, "escape")
    await _leave(app)
    return times


async def _open(app: VxtuiApp, pilot: Pilot[Any], name: str) -> JobScreen:
    app.open_job(name)
    await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.is_mounted, "the job")
    screen = app.screen
    assert isinstance(screen, JobScreen) and len(screen.panes) == TABS
    await until(pilot, lambda: screen.feed.sources["logs"].done, "its log")
    return screen


async def _leave(app: VxtuiApp) -> None:
    """Back to the jobs by the key for it, out of whatever is open."""
    for _ in range(10):
        if isinstance(app.screen, JobsScreen):
            return
        await press(app, "escape")
    raise AssertionError(f"escape does not leave {app.screen}")


def unsafe(character: str) -> bool:
    """A terminal may act on it: a control character, or one that turns the direction of the text."""
    return unicodedata.category(character) in ("Cc", "Zl", "Zp") or unicodedata.bidirectional(character) in (
        "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI",
    )  # fmt: skip


def check(app: VxtuiApp) -> None:
    """Look at every cell of the screen."""
    for line in app.screen._compositor.render_strips():
        for segment in line:
            assert not segment.control
            assert not [c for c in segment.text if unsafe(c)], segment.text
