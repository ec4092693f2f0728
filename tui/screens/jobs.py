"""All jobs of the context, live."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from textual import on
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from tui.actions import Action, bindings
from tui.domain.figures import age, pieces
from tui.domain.job import Job
from tui.domain.job_query import JobQuery, QueryError, parse
from tui.domain.text import plain
from tui.screens.lists import ListScreen
from tui.screens.message import show_link, show_trouble
from tui.store.jobs import JobChange
from tui.widgets.filter_bar import FilterBar
from tui.widgets.job_table import SORTABLE, JobTable, job_cells, sort_key
from tui.widgets.notice import Notice
from tui.widgets.table import Cells, Table

FIRST_RUN = "No jobs here yet."
READ_ONLY_FIX = "This console is read-only; start it without --read-only to launch one."
FIRST_RUN_FIX = "l launches one; local-2node trains on this machine in two minutes."


class JobsScreen(ListScreen):
    """See the module."""

    SCOPE = "jobs"
    TITLE_WORD = "Jobs"
    PLACEHOLDER = "state:running,failed  gpu:a100  team:nlp  age<2d  or any text"
    CSS_PATH = "jobs.tcss"
    BINDINGS = bindings("jobs")

    def __init__(self) -> None:
        super().__init__()
        self._query = JobQuery()
        self._problem = ""
        self._sort = SORTABLE[0]
        self._reverse = False
        self._paused = False
        self._looks: dict[str, tuple[Job, str, str]] = {}

    def make_table(self) -> Table:
        return JobTable()

    def compose_body(self) -> Iterable[Widget]:
        yield from super().compose_body()
        yield Static("", id="regions", markup=False)

    def on_mount(self) -> None:
        self.console.jobs_changed.subscribe(self, self._on_change)
        self.console.link_changed.subscribe(self, lambda _: self._link())

    def on_screen_resume(self) -> None:
        self.console.connection.watch(True)

    def on_screen_suspend(self) -> None:
        """Nobody sees the list now."""
        self.console.connection.watch(False)

    # What is shown

    def _on_change(self, change: JobChange) -> None:
        if not self._paused and self.is_current:
            self._show()

    def _link(self) -> None:
        if self.is_current:
            self._notice()
            self.refresh_frame()

    def tick(self) -> None:
        """Ages and durations grow."""
        if not self._paused and self.is_current:
            self._show()

    def reload(self) -> None:
        self._show()

    def _show(self) -> None:
        self._read_filter()
        now = self.console.clock()
        jobs = self.console.store.jobs
        found = [job for job in jobs.values() if self._query.matches(job, now)]
        found.sort(key=lambda job: sort_key(job, self._sort, now))
        if self._reverse:
            known = [job for job in found if not sort_key(job, self._sort, now)[0]]
            found = known[::-1] + found[len(known) :]
        cells = {job.name: self._cells(job) for job in found if self._differs(job, now)}
        if len(self._looks) > 2 * len(jobs) + 100:
            self._looks = {name: look for name, look in self._looks.items() if name in jobs}
        table = self.table
        table.set_sort(self._sort, self._reverse)
        table.show([job.name for job in found], cells)
        self._notice()
        self.refresh_frame()

    def _differs(self, job: Job, now: datetime) -> bool:
        """Whether the row has to be made anew: another reading of the job, or an age that reads otherwise."""
        look = (job, age(job.age(now)), age(job.duration(now)))
        if job.name in self.table and self._looks.get(job.name) == look:
            return False
        self._looks[job.name] = look
        return True

    def _cells(self, job: Job) -> Cells:
        several = len(self.console.settings.contexts) > 1
        return job_cells(
            job,
            self.console.clock(),
            context=self.console.context_name if several else "",
        )

    def _read_filter(self) -> None:
        bar = self.query_one(FilterBar)
        problem = ""
        try:
            self._query = parse(bar.text)
        except QueryError as error:
            problem = error.message
        # The list goes on with the last filter that could be read; the text is never touched.
        if problem != self._problem:
            self._problem = problem
            bar.say(problem)

    def _notice(self) -> None:
        console, table, notice = self.console, self.table, self.query_one(Notice)
        self._say_regions()
        shown = bool(table.keys)
        table.display = shown
        if self.say_stale(table.keys):
            return
        if shown:
            notice.hide()
        elif console.store.jobs:
            notice.tell("No job matches this filter.", plain(self.query_one(FilterBar).text), "esc clears it")
        elif console.live:
            notice.tell(FIRST_RUN, "", READ_ONLY_FIX if self.read_only else FIRST_RUN_FIX)
        else:
            notice.tell(f"Connecting to {plain(console.context_name)}…", "", "2 shows the profiles meanwhile")

    def _say_regions(self) -> None:
        """One line for each region that could not be read while others were."""
        console = self.console
        lines = []
        if console.trouble is None:
            for status in console.store.regions.values():
                if status.error is not None:
                    since = age(console.clock() - status.failing_since) if status.failing_since else ""
                    lines.append(f"! {status.region}: not reached for {since} ({status.error.message})")
        text = Content("\n").join([Content.styled(plain(line), "$text-warning") for line in lines[:4]])
        widget = self.query_one("#regions", Static)
        if widget.display != bool(lines) or widget.content != text:
            widget.update(text)
            widget.display = bool(lines)

    def count_text(self) -> str:
        shown, total = len(self.table.keys), len(self.console.store.jobs)
        text = f"{shown:,}" if shown == total else f"{shown:,} of {total:,}"
        return text + ("   paused" if self._paused else "")

    def order_text(self) -> Content:
        words = {"accelerators": "accelerators", "duration": "time"}.get(self._sort, self._sort)
        return Content.styled(f"sorted by {words} {'▲' if self._reverse else '▼'}", "$text-muted")

    # What is selected

    @property
    def current(self) -> Job | None:
        """The job under the cursor."""
        return self.console.store.jobs.get(self.table.cursor or "")

    def selected(self) -> list[Job]:
        """The marked jobs in the order shown, or the one under the cursor."""
        jobs, table = self.console.store.jobs, self.table
        names = [key for key in table.keys if key in table.marks] or [table.cursor or ""]
        return [jobs[name] for name in names if name in jobs]

    def why_not(self, found: Action) -> str | None:
        reason = super().why_not(found)
        if reason is not None:
            return reason
        needs_job = {"open", "mark", "mark_all", "cancel", "delete", "copy", "link"}
        if found.scope == "jobs" and found.method in needs_job and self.current is None:
            return "No job is selected."
        if found.id == "jobs.cancel" and not any(job.state.active for job in self.selected()):
            return _already("Nothing to cancel", self.selected())
        if found.id == "jobs.delete" and not any(job.state.terminal for job in self.selected()):
            return "Only an ended job can be deleted; c cancels it first."
        if found.id == "jobs.why" and not self.console.connection.failing():
            return "Everything could be read."
        return None

    # Actions

    def action_open(self) -> None:
        """Open the job under the cursor."""
        if self.current is not None:
            self.console.open_job(self.current.name)

    @on(Table.Chosen)
    def _chosen(self, event: Table.Chosen) -> None:
        self.console.open_job(event.key)

    def action_launch(self) -> None:
        """Choose a profile to launch."""
        self.console.action_profiles()

    def action_mark(self) -> None:
        """Mark or unmark, and go on to the next row."""
        key = self.table.cursor
        if key is not None:
            self.table.mark([key], key not in self.table.marks)
            self.table.action_cursor_down()

    def action_mark_all(self) -> None:
        """Mark all shown; where all are marked, unmark them."""
        keys = list(self.table.keys)
        self.table.mark(keys, not self.table.marks.issuperset(keys))

    async def action_cancel(self) -> None:
        """Cancel what is selected, after a question."""
        self.console.ask_cancel([job for job in self.selected() if job.state.active], then=self._unmark)

    def _unmark(self) -> None:
        """What was marked has been dealt with: the next key is about the row under the cursor again."""
        self.table.mark(list(self.table.marks), False)
        self.refresh_frame()

    async def action_delete(self) -> None:
        """Delete what is selected, after a question."""
        self.console.ask_delete([job for job in self.selected() if job.state.terminal], then=self._unmark)

    def action_sort(self) -> None:
        """Sort by the next column."""
        self._sort = SORTABLE[(SORTABLE.index(self._sort) + 1) % len(SORTABLE)]
        self._show()

    def action_reverse(self) -> None:
        """Turn the order round."""
        self._reverse = not self._reverse
        self._show()

    def action_pause(self) -> None:
        """Hold the screen still; reading goes on."""
        self._paused = not self._paused
        self._show()

    def action_copy(self) -> None:
        """Copy the resource name."""
        names = [job.name for job in self.selected()]
        self.console.send_copy("\n".join(names), pieces(len(names), "resource name"))

    def action_link(self) -> None:
        """Show and copy the address of the job's page."""
        if self.current is not None:
            show_link(self.console, self.current)

    def action_why(self) -> None:
        """Say what could not be read, in full."""
        show_trouble(self.console)

    def action_back(self) -> None:
        """Clear the filter, then the marks."""
        if not self.clear_filter():
            self.table.mark(list(self.table.marks), False)


def _already(what: str, jobs: list[Job]) -> str:
    if len(jobs) == 1:
        return f"{what}: {plain(jobs[0].display_name)} is {jobs[0].state.value.lower()} already."
    return f"{what}: all {len(jobs)} have ended."
