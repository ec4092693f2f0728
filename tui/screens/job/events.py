"""Events of a job: states, the platform's messages, and the trainer's milestones."""

from __future__ import annotations

from collections.abc import Iterable

from textual import on
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from tui.actions.registry import Action
from tui.domain.core.formatting import pieces
from tui.domain.core.log_entry import LogGap
from tui.domain.core.text import plain
from tui.screens.job.pane import JobPane
from tui.store.job.events import JobEvent
from tui.store.job.feed import Changed, JobFeed
from tui.store.log.lines import Line
from tui.widgets.events_list import EventsList
from tui.widgets.table.table import Table


class EventsPane(JobPane):
    """The Events tab."""

    SCOPE = "job_events"
    EXTRA = ("table",)
    TITLE = "Events"
    NEEDS = Changed.EVENTS | Changed.JOB

    class LogLineRequested(Message):
        """Show the log at this line."""

        def __init__(self, line: Line) -> None:
            super().__init__()
            self.line = line

    def __init__(self, feed: JobFeed) -> None:
        super().__init__(feed)
        self.events_view = EventsList()
        self._events: dict[str, JobEvent] = {}
        self._paused = False

    def compose(self) -> Iterable[Widget]:
        yield self.events_view
        yield self.notice

    def default_focus(self) -> Widget:
        return self.events_view

    def status(self) -> Content:
        return Content.styled(pieces(len(self._events), "event"), "$text-muted")

    def pause(self, on: bool) -> None:
        self._paused = on

    def show(self, changed: Changed) -> None:
        if self._paused:
            return
        job = self.feed.job
        events = self.feed.events.ordered(job)
        self._events = {event.key: event for event in events}
        start = (job.start_time or job.create_time) if job else None
        self.events_view.display_events(events, start)
        notice = self.notice
        if events:
            notice.hide()
        else:
            notice.show("Nothing has happened yet.")

    @property
    def current(self) -> JobEvent | None:
        """The event under the cursor."""
        return self._events.get(self.events_view.cursor or "")

    def unmet(self, condition: str, action: Action) -> str:
        if condition == "event":
            return "" if self.current else "No event is selected."
        return super().unmet(condition, action)

    def action_open(self) -> None:
        """Show the log at the time of the event."""
        if self.current is not None:
            # A gap precedes all entries of its time, so that the log is shown from that time.
            self.post_message(self.LogLineRequested(LogGap(self.current.timestamp, 0, "")))

    @on(Table.Chosen)
    def _opened(self, event: Table.Chosen) -> None:
        event.stop()
        self.action_open()

    def action_copy(self) -> None:
        """Copy the event."""
        event = self.current
        if event is not None:
            where = f" {event.where}" if event.where else ""
            text = plain(f"{event.timestamp.isoformat()} {event.kind}{where} {event.text}")
            self.console.send_copy(text, "the event")
