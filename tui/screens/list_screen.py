"""Base of the list screens: the context line, the filter, the table, the notice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from textual import on
from textual.content import Content
from textual.widget import Widget

from tui.domain.formatting import age, pieces
from tui.domain.jobs.tree import accelerators_at_work
from tui.domain.states import AT_WORK, JobState
from tui.domain.text import plain
from tui.screens.frame import FrameScreen
from tui.store.jobs.connection import Connection
from tui.store.jobs.connection_state import NOT_REACHED, ConnectionState, cure, not_reached
from tui.widgets.filter_bar import FilterBar
from tui.widgets.header_lines import Line
from tui.widgets.notice import Notice
from tui.widgets.table.table import Table

if TYPE_CHECKING:
    from tui.screens.console_app import ConsoleApp

FRESH = 5.0
"""Seconds for which a reading counts as live: an idle context is read every four."""
SEP = "   "
WIDE = 100
"""Width from which the first line has room for everything."""


class ListScreen(FrameScreen):
    """A table with a filter. A subclass gives `make_table`, `reload` and `count_text`."""

    PLACEHOLDER = ""
    HEADING = ""

    @property
    def table(self) -> Table:
        """The screen's table."""
        return self.query_one(Table)

    def make_table(self) -> Table:
        """The empty table."""
        raise TypeError(f"{type(self).__name__} must make its table")

    def completions(self, text: str) -> tuple[str, Sequence[str]]:
        """What `tab` completes in the filter: the text before it, and the words that fit."""
        return text, ()

    def compose_body(self) -> Iterable[Widget]:
        yield FilterBar(self.PLACEHOLDER, self.completions)
        yield self.make_table()
        yield Notice()

    def on_mount(self) -> None:
        self.table.focus()
        self.set_interval(1.0, self.tick)
        self.reload()

    def on_screen_resume(self) -> None:
        self.reload()

    def tick(self) -> None:
        """Update the ages, once a second."""
        if self.is_current:
            self.refresh_frame()

    def refresh_frame(self) -> None:
        super().refresh_frame()
        if self.focused is None and self.has_widgets:
            self.keep_focus(self.table)

    def reload(self) -> None:
        """Show what the store has now."""
        self.refresh_frame()

    # Lines

    def top_line(self) -> Line:
        console = self.console
        regions = console.connection.regions
        where = plain(regions[0]) + (f" +{len(regions) - 1}" if len(regions) > 1 else "") if regions else ""
        left = Content.assemble(
            ("vxtui", "bold $accent"),
            SEP,
            (plain(console.context_name), "bold"),
            "  ",
            (where, "$text-muted"),
            SEP,
            summary(console),
        )
        right = connection_text(console.connection)
        if self.read_only:
            right = Content.assemble(("read-only", "bold $text-warning"), SEP, right)
        return left, right

    def count_text(self) -> str:
        """`42 of 318`."""
        return ""

    def order_text(self) -> Content:
        """How the list is sorted."""
        return Content("")

    def marked_text(self) -> str:
        """How many rows are marked."""
        return f"{len(self.table.marks)} marked"

    def second_line(self) -> Line:
        bar = self.query_one(FilterBar)
        # While it is typed it is shown in its own line.
        text = "" if bar.display else bar.text
        parts: list[Content | str | tuple[str, str]] = [(self.HEADING, "bold"), SEP, self.count_text()]
        if text:
            parts += [SEP, ("/ ", "bold $accent"), (plain(text), "$accent")]
        if self.table.marks:
            parts += [SEP, (self.marked_text(), "bold $accent")]
        return Content.assemble(*parts), self.order_text()

    # Filter

    def action_filter(self) -> None:
        """Open the filter line."""
        self.query_one(FilterBar).open()

    @on(FilterBar.Changed)
    def _filter_changed(self) -> None:
        self.reload()

    @on(FilterBar.Closed)
    def _filter_closed(self) -> None:
        self.table.clear_widths()
        self.reload()

    def clear_filter(self) -> bool:
        """Clear the filter; returns whether there was one."""
        bar = self.query_one(FilterBar)
        had = bool(bar.text)
        bar.clear()
        if had:
            self.reload()
        return had

    async def action_back(self) -> None:
        """Clear the filter, or go back to the jobs."""
        if not self.clear_filter():
            await self.action_do("app.jobs")

    @on(Table.Moved)
    def _moved(self) -> None:
        self.refresh_frame()

    def show_stale(self, shown: Sequence[str]) -> bool:
        """Show why this list may be stale; returns whether there was a reason."""
        return show_not_reached(self.console, self.query_one(Notice), alone=not shown)


def show_not_reached(console: ConsoleApp, notice: Notice, *, alone: bool) -> bool:
    """Show why the context can't be read now, and since when; returns whether it can't."""
    error = console.trouble
    if error is None:
        return False
    what = not_reached(console.context_name, console.connection.status.since, console.clock())
    notice.show(what, error.message, f"{cure(error)}   :context goes elsewhere", bad=True, alone=alone)
    return True


def summary(console: ConsoleApp) -> Content:
    """Running, waiting and suspended jobs, their accelerators and their cost an hour."""
    store = console.store
    active = store.active
    # A job and its parts are one piece of work; their machines are those of the own parts.
    jobs = [job for job in active.values() if not store.ends_with(job)]
    running = [job for job in jobs if job.state in AT_WORK]
    parts_at_work = [store.own_part(job) for job in active.values() if job.state in AT_WORK]
    machines = [part for part in parts_at_work if part is not None and part.groups]
    gpus = sum(accelerators_at_work(machines).values())
    parts = [Content.styled(f"{len(running)} running", "$text-success" if running else "$text-muted")]
    # One that is suspended has no machines, costs nothing and waits for nothing but a person.
    suspended = sum(job.state is JobState.SUSPENDED for job in jobs)
    waiting = len(jobs) - len(running) - suspended
    if waiting:
        parts.append(Content.styled(f"{waiting} waiting", "$text-warning"))
    if suspended:
        parts.append(Content.styled(f"{suspended} suspended", "$text-muted"))
    if gpus:
        parts.append(Content(pieces(gpus, "accelerator")))
    # The emulator bills nothing: its jobs are never added to those that cost money.
    free = console.bills_nothing
    rate = console.costs.total_text(job for job in machines if free or not console.unbilled(job))
    rate = " + ".join(filter(None, (rate, console.standing.text())))
    if rate:
        cost = Content.styled(f"would cost {rate}", "$text-muted") if free else Content(rate)
        # If the line is cut, the cost is cut last.
        parts.insert(len(parts) if console.size.width >= WIDE else 1, cost)
    return Content(SEP).join(parts)


def connection_text(connection: Connection) -> Content:
    """`live` where all is, `2/3 not reached`, `connecting…` or `not reached`; the age of what is shown."""
    read_at = connection.read_at
    old = (connection.clock() - read_at).total_seconds() if read_at else 0.0
    seen = f"  seen {age(connection.clock() - read_at)} ago" if read_at else ""
    match connection.status.state:
        case ConnectionState.LIVE:
            ago = "" if old < FRESH else f"  {old:.0f}s ago"
            failing, regions = connection.unreached
            if failing:
                return Content.assemble(
                    (f"! {failing}/{regions} {NOT_REACHED}", "$text-warning"), (ago, "$text-muted")
                )
            return Content.assemble(("live", "$text-success"), (ago, "$text-muted"))
        case ConnectionState.FAILED:
            return Content.assemble((NOT_REACHED, "bold $text-error"), (seen, "$text-muted"))
    return Content.assemble(("connecting…", "$text-warning"), (seen, "$text-muted"))
