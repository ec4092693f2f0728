"""The events of a job, one line each, with the time since its start."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from textual.content import Content

from tui.domain.core.log_entry import Severity
from tui.domain.core.text import plain
from tui.store.job.events import JobEvent
from tui.widgets.log.render import offset_text, short_replica
from tui.widgets.table.table import Column, Table

COLUMNS = (
    Column("time", "TIME", 8, max_width=8, rank=2),
    Column("offset", "FROM START", 10, max_width=12, rank=1, right=True),
    Column("kind", "KIND", 10, max_width=11),
    Column("where", "WHERE", 7, max_width=12, rank=3),
    Column("text", "WHAT", 30, flex=True),
)
_STYLES = {
    "state": "bold",
    "service": "$text-muted",
    "checkpoint": "$text-primary",
    "done": "$text-primary",
    "preempted": "$text-warning",
    "resumed": "$text-warning",
    "gap": "$text-warning",
}


class EventsList(Table):
    """One row per event, oldest first. The row's key is the event's key."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(COLUMNS, id=id)

    def display_events(self, events: Sequence[JobEvent], start: datetime | None) -> None:
        """Show these events. A cursor on the last event stays on the last event."""
        at_end = not self.keys or self.cursor == self.keys[-1]
        rows = {event.key: event_cells(event, start) for event in events}
        self.show(list(rows), rows)
        if at_end and rows:
            self.move_to(events[-1].key)


def event_cells(event: JobEvent, start: datetime | None) -> dict[str, Content]:
    """Return one event's row."""
    style = _STYLES.get(event.kind, "")
    if event.severity >= Severity.ERROR:
        style = "$text-error"
    elif event.severity >= Severity.WARNING:
        style = "$text-warning"
    offset = offset_text(event.timestamp - start) if start else "·"
    return {
        "time": Content.styled(f"{event.timestamp.astimezone():%H:%M:%S}", "$text-muted"),
        "offset": Content.styled(offset, "$text-muted"),
        "kind": Content.styled(plain(event.kind), style),
        "where": Content.styled(short_replica(event.where), "$text-muted"),
        "text": Content.styled(plain(event.text), style if style != "$text-muted" else ""),
    }
