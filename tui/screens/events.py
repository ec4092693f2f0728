"""Events: actions of this console and earlier ones, and state changes of jobs while it is open."""

from __future__ import annotations

import asyncio
from datetime import date, datetime

from textual import on
from textual.content import Content

from tui.actions.registry import Action, bindings
from tui.domain.formatting import pieces
from tui.domain.text import plain
from tui.screens.list_screen import ListScreen
from tui.screens.workers import background
from tui.store.journal import Event
from tui.widgets.notice import Notice
from tui.widgets.table.table import Column, Table

COLUMNS = (
    Column("time", "TIME", 8, max_width=12),
    Column("kind", "KIND", 8, max_width=8, rank=1),
    Column("text", "WHAT", 30, flex=True),
)
_STYLE = {"error": "$text-error", "action": "$text-accent", "state": "", "console": "$text-muted"}


class EventsScreen(ListScreen):
    """The journal, newest first. Mutations are in the audit file too."""

    SCOPE = "events"
    HEADING = "Events"
    BINDINGS = bindings("events")

    def __init__(self) -> None:
        super().__init__()
        self._earlier: list[Event] = []

    def make_table(self) -> Table:
        return Table(COLUMNS)

    def on_mount(self) -> None:
        """Read the actions of earlier runs from disk, once."""
        background(self, self._read_earlier, "earlier")

    async def _read_earlier(self) -> None:
        self._earlier = await asyncio.to_thread(self.console.journal.earlier)
        self.reload()

    @property
    def _events(self) -> list[Event]:
        """Newest last."""
        return [*self._earlier, *self.console.journal.events]

    def tick(self) -> None:
        """Show new events."""
        if self.is_current:
            self.reload()

    def reload(self) -> None:
        events, today = self._events[::-1], self.console.clock().astimezone().date()
        rows = {
            str(event.number): {
                "time": Content.styled(_when(event.at.astimezone(), today), "$text-muted"),
                "kind": Content.styled(event.kind, _STYLE.get(event.kind, "")),
                "text": Content.styled(plain(self._text(event)), _STYLE.get(event.kind, "")),
            }
            for event in events
        }
        table, notice = self.table, self.query_one(Notice)
        table.show(list(rows), rows)
        table.display = bool(rows)
        if rows:
            notice.hide()
        else:
            notice.show(
                "Nothing has happened yet.", "Launches, cancels and jobs that change state show up here."
            )
        self.refresh_frame()

    def _text(self, event: Event) -> str:
        """The event's text, with the job's name in place of its resource name."""
        job = self.console.store.jobs.get(event.job)
        return event.text if job is None else event.text.replace(job.name, job.display_name or job.id)

    def count_text(self) -> str:
        return pieces(len(self.table.keys), "event")

    def order_text(self) -> Content:
        return Content.styled(plain(f"actions are kept in {self.console.journal.path}"), "$text-muted")

    def blocked_reason(self, found: Action) -> str | None:
        if found.id == "events.open" and not self._job():
            return "This event belongs to no job of this context."
        return super().blocked_reason(found)

    def _job(self) -> str:
        key = self.table.cursor
        found = next((e.job for e in self._events if str(e.number) == key), "")
        # A deleted job, or one of another context, can't be opened.
        return found if found in self.console.store.jobs else ""

    def action_open(self) -> None:
        """Open the job the event is about."""
        if self._job():
            self.console.open_job(self._job())

    @on(Table.Chosen)
    def _chosen(self) -> None:
        self.action_open()


def _when(moment: datetime, today: date) -> str:
    """The time if it was today, else day and minute."""
    return f"{moment:%H:%M:%S}" if moment.date() == today else f"{moment:%d %b %H:%M}"
