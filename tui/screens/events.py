"""What happened in this console: what it did, and how jobs changed while it was open."""

from __future__ import annotations

from textual import on
from textual.content import Content

from tui.actions import Action, bindings
from tui.domain.figures import pieces
from tui.domain.text import plain
from tui.screens.lists import ListScreen
from tui.widgets.notice import Notice
from tui.widgets.table import Column, Table

COLUMNS = (
    Column("time", "TIME", 8, most=8),
    Column("kind", "KIND", 8, most=8, rank=1),
    Column("text", "WHAT", 30, flex=True),
)
_STYLE = {"error": "$text-error", "action": "$text-accent", "state": "", "console": "$text-muted"}


class EventsScreen(ListScreen):
    """The journal, newest first. What changed something is in the audit file too."""

    SCOPE = "events"
    TITLE_WORD = "Events"
    BINDINGS = bindings("events")

    def make_table(self) -> Table:
        return Table(COLUMNS)

    def tick(self) -> None:
        """Show what has come."""
        if self.is_current:
            self.reload()

    def reload(self) -> None:
        events = list(self.console.journal.events)[::-1]
        rows = {
            str(event.number): {
                "time": Content.styled(f"{event.at.astimezone():%H:%M:%S}", "$text-muted"),
                "kind": Content.styled(event.kind, _STYLE.get(event.kind, "")),
                "text": Content.styled(plain(event.text), _STYLE.get(event.kind, "")),
            }
            for event in events
        }
        table, notice = self.table, self.query_one(Notice)
        table.show(list(rows), rows)
        table.display = bool(rows)
        if rows:
            notice.hide()
        else:
            notice.tell(
                "Nothing has happened yet.", "Launches, cancels and jobs that change state show up here."
            )
        self.refresh_frame()

    def count_text(self) -> str:
        return pieces(len(self.table.keys), "event")

    def order_text(self) -> Content:
        return Content.styled(plain(f"actions are kept in {self.console.journal.path}"), "$text-muted")

    def why_not(self, found: Action) -> str | None:
        if found.id == "events.open" and not self._job():
            return "This event is about no job."
        return super().why_not(found)

    def _job(self) -> str:
        key = self.table.cursor
        return next((e.job for e in self.console.journal.events if str(e.number) == key), "")

    def action_open(self) -> None:
        """Open the job the event is about."""
        if self._job():
            self.console.open_job(self._job())

    @on(Table.Chosen)
    def _chosen(self) -> None:
        self.action_open()
