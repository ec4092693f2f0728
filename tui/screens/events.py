"""Events: actions of this console, earlier consoles and verbs, and jobs that change state."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from datetime import date, datetime

from textual import on
from textual.content import Content

from tui.actions.registry import Action, bindings
from tui.domain.core.formatting import pieces
from tui.domain.core.text import plain
from tui.screens.list_screen import ListScreen
from tui.screens.workers import background
from tui.store.journal import KEPT, Event
from tui.widgets.filter_bar import FilterBar
from tui.widgets.notice import Notice
from tui.widgets.table.table import Column, Table

COLUMNS = (
    Column("time", "TIME", 8, max_width=12),
    Column("kind", "KIND", 8, max_width=8, rank=1),
    Column("text", "WHAT", 30, flex=True),
)
_RESOURCE = re.compile(r"projects/[^/\s]+/locations/[^/\s]+/[A-Za-z]+/(?P<id>[\w-]+)")
_STYLE = {"error": "$text-error", "action": "$text-accent", "state": "", "console": "$text-muted"}


class EventsScreen(ListScreen):
    """The journal, newest first. The audit file contains mutations too."""

    SCOPE = "events"
    HEADING = "Events"
    PLACEHOLDER = "job, kind or text: action cancel"
    BINDINGS = bindings("events")

    def __init__(self) -> None:
        super().__init__()
        self._audited: deque[Event] = deque(maxlen=KEPT)
        self._shown: tuple[object, ...] = ()
        self._reading = False
        self._total = 0

    def make_table(self) -> Table:
        return Table(COLUMNS)

    def on_screen_resume(self) -> None:
        self._follow()

    def _follow(self) -> None:
        if not self._reading:
            self._reading = True
            background(self, self._read_audit, "audit file")

    async def _read_audit(self) -> None:
        """Read the operations of earlier runs, other consoles and verbs since the last read."""
        try:
            self._audited += await asyncio.to_thread(self.console.journal.read_audit)
        finally:
            self._reading = False
        if self.is_current and self._state() != self._shown:
            self.reload()

    @property
    def _events(self) -> list[Event]:
        return sorted([*self._audited, *self.console.journal.events], key=lambda event: event.at)

    def _state(self) -> tuple[object, ...]:
        """Return the values that determine the list."""
        events, audited = self.console.journal.events, self._audited
        newest = [log[-1].number if log else 0 for log in (events, audited)]
        return (*newest, self._today())

    def _today(self) -> date:
        return self.console.clock().astimezone().date()

    def tick(self) -> None:
        """Show new events, including events of other programs."""
        super().tick()
        if self.is_current:
            self._follow()

    def reload(self) -> None:
        today = self._today()
        words = self.query_one(FilterBar).text.casefold().split()
        events = [event for event in self._events[::-1] if self._fits(event, words)]
        self._shown = self._state()
        rows = {
            str(event.number): {
                "time": Content.styled(_when(event.at.astimezone(), today), "$text-muted"),
                "kind": Content.styled(event.kind, _STYLE.get(event.kind, "")),
                "text": Content.styled(plain(self._text(event)), _STYLE.get(event.kind, "")),
            }
            for event in events
        }
        self._total = len(self._events)
        table, notice = self.table, self.query_one(Notice)
        table.show(list(rows), rows)
        table.display = bool(rows)
        if rows:
            notice.hide()
        elif words:
            notice.show(
                "No event matches this filter.", plain(self.query_one(FilterBar).text), "esc clears it"
            )
        else:
            notice.show(
                "Nothing has happened yet.", "Launches, cancels and state changes of jobs appear here."
            )
        self.refresh_frame()

    def _text(self, event: Event) -> str:
        """Return the event's text with the job's name, or its id if the name is unknown."""
        return _RESOURCE.sub(self._job_words, event.text)

    def _job_words(self, match: re.Match[str]) -> str:
        job = self.console.store.jobs.get(match[0])
        return match["id"] if job is None else job.display_name or job.id

    def _fits(self, event: Event, words: list[str]) -> bool:
        text = f"{event.kind} {self._text(event)}".casefold() if words else ""
        return all(word in text for word in words)

    def count_text(self) -> str:
        shown = len(self.table.keys)
        return pieces(shown, "event") if shown == self._total else f"{shown:,} of {self._total:,}"

    def order_text(self) -> Content:
        return Content.styled(plain(f"actions are stored in {self.console.journal.path}"), "$text-muted")

    def unmet(self, condition: str, action: Action) -> str:
        if condition == "job":
            return "" if self._job() else "This event belongs to no job of this context."
        return super().unmet(condition, action)

    def _job(self) -> str:
        key = self.table.cursor
        job = next((e.job for e in self._events if str(e.number) == key), "")
        # A deleted job, or one of another context, can't be opened.
        return job if job in self.console.store.jobs else ""

    def action_open(self) -> None:
        """Open the job of the event."""
        if self._job():
            self.console.open_job(self._job())

    @on(Table.Chosen)
    def _chosen(self) -> None:
        self.action_open()


def _when(moment: datetime, today: date) -> str:
    """Format a time: today's as the time of day, any other with its date."""
    return f"{moment:%H:%M:%S}" if moment.date() == today else f"{moment:%d %b %H:%M}"
