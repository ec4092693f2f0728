"""What screens that are opened later import, done in a thread while nobody waits for it.

The first key that opens such a screen would import its modules between two frames: 50 to 250 ms of CPU.
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
"""For the jobs screen, with the panes of a job: what its keys open."""
CHARTS = ("textual_plot", "textual_plot.axis_formatter")
"""For a job's screen. Not sooner: numpy takes some 20 MB."""

PAUSE = 0.3
"""Seconds without a key after which nobody is taken to press the next one at once."""
BETWEEN = 0.01
"""Seconds for keys between two files of styles."""


def screens() -> tuple[str, ...]:
    """`SCREENS`, with the tabs of each kind of job."""
    panes = {tab.pane.partition(":")[0] for kind in kinds() for tab in kind.tabs}
    return (*SCREENS, *sorted(panes))


def missing(modules: tuple[str, ...]) -> list[str]:
    """Those that are not imported yet."""
    return [name for name in modules if name not in sys.modules]


async def load(modules: tuple[str, ...]) -> None:
    """Import those that are missing."""
    wanted = missing(modules)
    if wanted:
        await asyncio.to_thread(lazy_imports.load, wanted)


class Quiet(Protocol):
    """An app, as far as its keys are concerned."""

    def quiet_for(self) -> float: ...


async def load_in_pause(app: Quiet, modules: tuple[str, ...]) -> None:
    """Import those that are missing once no key has come for `PAUSE`: the thread takes time from keys."""
    while missing(modules) and (left := PAUSE - app.quiet_for()) > 0:  # noqa: ASYNC110 - a pause sets nothing
        await asyncio.sleep(left)
    await load(modules)


class Styled(Protocol):
    """An app, as far as its styles are concerned."""

    @property
    def key_in_progress(self) -> bool: ...


async def read_styles(app: Styled, stylesheet: CachedStylesheet, *folders: str) -> None:
    """Parse the styles of the screens and dialogs in these folders of `tui/screens`, or in all."""
    here = Path(__file__).parent
    for folder in folders or ("",):
        for path in sorted((here / folder).rglob("*.tcss")):
            while app.key_in_progress:  # noqa: ASYNC110 - a key's end sets nothing that could be awaited
                await asyncio.sleep(BETWEEN)
            stylesheet.read_ahead(path)
            await asyncio.sleep(BETWEEN)
