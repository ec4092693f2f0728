"""Imports the modules and parses the styles of unopened screens while the console is idle.

Otherwise the first key that opens such a screen imports its modules between two frames: 50 to 250 ms of CPU.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Protocol

from tui import lazy_imports
from tui.display.stylesheet import CachedStylesheet
from tui.kinds.registry import kinds

SCREENS = (
    "tui.screens.dialogs.help",
    "tui.screens.dialogs.prompt",
    "tui.screens.job.screen",
    "tui.screens.jobs.columns",
    "tui.screens.jobs.job_actions",
    "tui.screens.fleet.screen",
    "rich._emoji_codes",
    "textual.scrollbar",
)
"""Modules of the screens that the keys of the jobs screen open. The panes of a job are added."""
CHARTS = ("textual_plot", "textual_plot.axis_formatter")
"""Modules of a job's charts. The console does not preload these modules at the start, because numpy takes
about 20 MB."""

PAUSE = 0.3
"""Seconds without a key press after which the user is considered idle."""
BETWEEN = 0.01
"""Seconds left for keys between files of styles."""


def screen_modules() -> tuple[str, ...]:
    """Return `SCREENS` and the modules of the tabs of each kind of job."""
    panes = {tab.pane.partition(":")[0] for kind in kinds() for tab in kind.tabs}
    return (*SCREENS, *sorted(panes))


def missing(modules: tuple[str, ...]) -> list[str]:
    """Return the modules that are not imported yet."""
    return [name for name in modules if name not in sys.modules]


async def import_modules(modules: tuple[str, ...]) -> None:
    """Import the missing modules in a thread."""
    names = missing(modules)
    if names:
        await asyncio.to_thread(lazy_imports.load, names)


class KeyReporter(Protocol):
    """The part of the app that reports key presses."""

    @property
    def key_in_progress(self) -> bool: ...

    def quiet_for(self) -> float: ...


async def import_in_pause(app: KeyReporter, modules: tuple[str, ...]) -> None:
    """Import the missing modules once no key has arrived for `PAUSE` seconds, because the import delays
    keys."""
    while missing(modules) and (left := PAUSE - app.quiet_for()) > 0:  # noqa: ASYNC110 - a pause sets nothing
        await asyncio.sleep(left)
    await import_modules(modules)


async def read_styles(app: KeyReporter, stylesheet: CachedStylesheet, *folders: str) -> None:
    """Parse the styles of the screens and dialogs in these folders of `tui/screens`, or in all folders."""
    screens = Path(__file__).parent.parent
    for folder in folders or ("",):
        for path in sorted((screens / folder).rglob("*.tcss")):
            while app.key_in_progress:  # noqa: ASYNC110 - a key's end sets nothing that could be awaited
                await asyncio.sleep(BETWEEN)
            stylesheet.read_ahead(path)
            await asyncio.sleep(BETWEEN)
