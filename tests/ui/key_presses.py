"""A key, and what follows from it: a word, another screen, another picture, or the clipboard."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from textual import events
from textual.pilot import Pilot

from tests.ui.conftest import wait_for_idle
from tests.waiting import until
from tui.app import VxtuiApp
from tui.screens.job.screen import JobScreen
from tui.screens.jobs.screen import JobsScreen
from tui.widgets.filter_bar import FilterBar

CHARACTERS = {
    "asterisk": "*", "slash": "/", "ampersand": "&", "exclamation_mark": "!", "plus": "+", "minus": "-",
    "right_square_bracket": "]", "left_square_bracket": "[", "space": " ",
}  # fmt: skip
MOVES = {"back", "earlier", "later", "whole", "cross_left", "cross_right"}
"""They undo what a key before them did, or move in a chart: at its edge there is nothing to move."""


@dataclass
class Keys:
    """An open console whose keys are pressed."""

    app: VxtuiApp
    pilot: Pilot[Any]

    @property
    def list(self) -> JobsScreen:
        return next(each for each in self.app.screen_stack if isinstance(each, JobsScreen))

    async def press(self, key: str) -> list[str]:
        """Press a key; what was said, and in what else the screen differs now."""
        app = self.app
        app.clear_notifications()
        app._by_topic.clear()
        for screen in app.screen_stack:
            if isinstance(screen, JobsScreen | JobScreen):
                # The same reason is said once in three seconds.
                screen._blocked_shown = "", 0.0
        before = self._seen()
        taken = asyncio.Event()
        app.post_message(events.Key(key, CHARACTERS.get(key, key if len(key) == 1 else None)))
        app.call_later(taken.set)
        await taken.wait()
        await self.idle()
        await until(lambda: not app.key_in_progress, f"the key {key}")
        return self._followed(before)

    async def idle(self) -> None:
        """Wait until what a key does is done."""
        await wait_for_idle()

    def _followed(self, before: dict[str, Any]) -> list[str]:
        said = [str(getattr(each, "whole", each.message)) for each in self.app._notifications]
        return said or [what for what, now in self._seen().items() if now != before[what]]

    def _seen(self) -> dict[str, Any]:
        app = self.app
        return {"another screen": app.screen, "the picture": self._frame(), "the clipboard": app.clipboard}

    def _frame(self) -> list[Any]:
        return [tuple(line) for line in self.app.screen._compositor.render_strips()]

    async def back_to(self, screen: Any) -> None:
        """Close what a key has opened above this screen, or beside it: `l` goes to the profiles."""
        if self.app.current_mode != "jobs":
            await self.app.switch_mode("jobs")
            await self.idle()
        while self.app.screen is not screen and len(self.app.screen_stack) > 1:
            self.app.pop_screen()
            await self.idle()
        assert self.app.screen is screen

    async def open(self, name: str) -> JobScreen:
        self.app.open_job(name)
        await until(lambda: isinstance(self.app.screen, JobScreen) and self.app.screen.job, "the job")
        await self.idle()
        assert isinstance(self.app.screen, JobScreen)
        return self.app.screen

    async def back_to_list(self, screen: JobsScreen) -> None:
        """Close what a key has opened, and undo what it has changed in the list."""
        await self.back_to(screen)
        if screen.rows.order.group:
            screen.rows.order.group = ""
            screen.reload()
        screen.query_one(FilterBar).clear()
        screen.table.mark(list(screen.table.marks), False)
        screen.table.focus()

    async def back_to_tab(self, screen: JobScreen, tab: str) -> None:
        """The same in a tab of a job's screen."""
        await self.back_to(screen)
        if screen.paused:
            screen.action_pause()
        if screen.pane is not screen.panes[tab]:
            screen._tab(tab)
            await self.idle()
        (screen.pane.default_focus() or screen).focus()
