"""All jobs of the context, live."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from textual import on
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from tui.actions.availability import ActionSelection, allowed_jobs
from tui.actions.registry import Action, bindings
from tui.actions.registry import action as action_named
from tui.domain.core.formatting import age, pieces
from tui.domain.core.job import Job
from tui.domain.core.text import plain
from tui.domain.fields.field import columns
from tui.domain.fields.job_row import JobRow, JobSources, UsageTrend
from tui.domain.fields.jobs import JOB_FIELDS, SORTS
from tui.domain.jobs.query import FIELDS, JobQuery, QueryError, completions, parse, without_unfinished
from tui.kinds.registry import kind_of
from tui.screens.dialogs.message import show_trouble
from tui.screens.jobs.copy_command import copy_command
from tui.screens.jobs.row_actions import RowActions
from tui.screens.jobs.rows import GROUPS, HEAD, JobRows
from tui.screens.jobs.views import JobsViews, not_comparable
from tui.screens.list_screen import ListScreen
from tui.screens.workers import background
from tui.session import Session, Stopped
from tui.store.jobs.causes import CauseFeed, causes_in
from tui.store.jobs.connection_state import not_reached
from tui.store.jobs.region_errors import region_errors
from tui.store.jobs.table import JobChange
from tui.store.jobs.usage import UsageFeed
from tui.widgets.filter_bar import FilterBar
from tui.widgets.header_lines import Line
from tui.widgets.notice import Notice
from tui.widgets.table.cells import row_cells
from tui.widgets.table.job_table import JobTable
from tui.widgets.table.table import Cells, Table

COLUMNS = columns(JOB_FIELDS)
FIRST_RUN = "No jobs here yet."

SHOWN_AT_ONCE = 500
"""Maximum number of listed jobs while each page is shown as soon as it arrives."""
FIRST_PAGE = 50
ID_FROM = 160
"""Minimum width of the screen at which the job ids get a column."""
FIRST_WAIT, TOGETHER = 0.5, 1.0
"""Seconds until a longer list is first shown while it is read, and seconds between updates."""


class JobsScreen(ListScreen):
    """The list with which the console starts."""

    SCOPE = "jobs"
    HEADING = "Jobs"
    PLACEHOLDER = "state:running,failed  kind:tuning  gpu:a100  team:nlp  age<2d  or any text"
    CSS_PATH = "screen.tcss"
    BINDINGS = bindings("jobs")

    def __init__(self) -> None:
        super().__init__()
        self.views = JobsViews(self, lambda: self.rows)
        self._row_actions = RowActions(self)
        self._problem = ""
        self._paused = False
        self._rows: JobRows | None = None
        self._waiting = False
        self._shown_at = 0.0
        self._wide = False
        self._usage: UsageFeed | None = None
        self._usage_of: Session | None = None
        self._following = False
        self._causes_of: tuple[bool, Session | None] = (False, None)
        """Whether causes are searched for, and the session that reads the logs."""

    def make_table(self) -> Table:
        return JobTable()

    def completions(self, text: str) -> tuple[str, Sequence[str]]:
        """Return the completions of `tab` in the filter, from the listed jobs."""
        return completions(text, self.console.store.jobs.values())

    def compose_body(self) -> Iterable[Widget]:
        yield from super().compose_body()
        yield Static("", id="regions", markup=False)

    def on_mount(self) -> None:
        self.console.jobs_changed.subscribe(self, self._on_change)
        self.console.connection_changed.subscribe(self, lambda _: self._link())
        self.watch(self.app, "app_focus", self._watched, init=False)

    def on_unmount(self) -> None:
        self.views.close()

    def on_screen_resume(self) -> None:
        self._watched()

    def on_screen_suspend(self) -> None:
        """Read less often while the list is hidden."""
        self.console.connection.watch(False)
        self._follow_usage()

    def _watched(self) -> None:
        """Read often only while the list is visible and the terminal has the focus."""
        self.console.connection.watch(self.is_current and self.app.app_focus)
        self._follow_usage()

    # Content

    @property
    def rows(self) -> JobRows:
        """The rows of the open context."""
        store = self.console.store
        if self._rows is None or self._rows.store is not store:
            self._rows = self._new_rows()
            self.views.restore(self._rows)
            self.console.connection.looked_at = self._in_view
        return self._rows

    def _new_rows(self) -> JobRows:
        console = self.console
        return JobRows(console.store, console.clock, self._cells, self._sources(), as_of=self._as_of)

    def _as_of(self, job: Job) -> datetime:
        return self.console.connection.as_of(job)

    def on_resize(self) -> None:
        """Show the ids on a wide screen, and hide them on a narrower screen."""
        if self.has_widgets and self._wide != (self.size.width >= ID_FROM):
            self._show()

    def _in_view(self) -> Sequence[str]:
        # The connection calls this from another task, also before the table exists, and while the screen is
        # removed.
        if not self.has_widgets:
            return ()
        # A table with its first rows has no height yet.
        return self.table.in_view or self.table.keys[:FIRST_PAGE]

    def _on_change(self, change: JobChange) -> None:
        self.rows.note((*change.added, *change.changed, *change.removed))
        if self._paused or not self.is_current or self._waiting:
            return
        # Pages of a long list arrive in quick succession and are shown together.
        if len(self.console.store.jobs) <= SHOWN_AT_ONCE:
            self._show()
        else:
            self._waiting = True
            rest = self._shown_at + TOGETHER - time.monotonic()
            self.set_timer(max(FIRST_WAIT, rest), self._show_waiting)

    def _show_waiting(self) -> None:
        waiting, self._waiting = self._waiting, False
        if waiting and not self._paused and self.is_current:
            self._show()

    def _link(self) -> None:
        self._follow_usage()
        if self._waiting:
            # A read has ended, so show its last pages.
            self._show_waiting()
        elif self.is_current:
            self._notice()
            self.refresh_frame()

    def tick(self) -> None:
        """Update ages and durations."""
        if not self._paused and self.is_current:
            if not self._waiting:
                self.rows.tick(self.table)
            self._notice()
            self.refresh_frame()
            self.views.keep()

    def reload(self) -> None:
        self._show()

    def _show(self) -> None:
        rows, table = self.rows, self.table
        self._read_filter()
        if isinstance(table, JobTable):
            jobs, billed = self.console.store.jobs.values(), not self.console.bills_nothing
            group = self.console.connection.context.kind == "group"
            self._wide = self.size.width >= ID_FROM
            ids = self._wide and any(job.id != job.display_name for job in jobs)
            table.show_kinds({job.kind for job in jobs}, billed=billed, contexts=group, ids=ids)
        table.set_sort(rows.order.sort, self._largest_first)
        rows.show(table)
        self._shown_at = time.monotonic()
        self._notice()
        self.refresh_frame()

    def _sources(self) -> JobSources:
        console = self.console
        return JobSources(
            words=lambda job: kind_of(job).words,
            usage=self._trend,
            cost=console.spent_words,
            spent=console.spent,
            billed=lambda job: not console.unbilled(job),
        )

    def _trend(self, job: Job, metric: str) -> UsageTrend:
        return self._usage.course(job.runner, metric) if self._usage is not None else UsageTrend()

    def _cells(self, job: Job, now: datetime) -> Cells:
        fields = (*kind_of(job).fields, *COLUMNS)
        row = JobRow(
            self.console.wait_reasons.listed(job),
            now,
            self._sources(),
            causes_in(self.console.state_dir).of(job),
        )
        return row_cells(fields, row, ascii_only=self.ascii_only)

    def _follow_causes(self) -> None:
        """Find the causes of the failed jobs in view, while the list is visible."""
        visible, session = self.is_current, self.session
        if visible and self._causes_of != (True, session):
            known = causes_in(self.console.state_dir)
            feed = CauseFeed(session, known, self._listed_in_view, self.table.change)
            background(self, feed.run, "causes")
        elif not visible and self._causes_of[0]:
            self.workers.cancel_group(self, "causes")
        self._causes_of = visible, session

    def _listed_in_view(self) -> list[Job]:
        jobs = self.console.store.jobs
        return [jobs[name] for name in self._in_view() if name in jobs]

    def _follow_usage(self) -> None:
        """Read the usage of the jobs in view."""
        self._follow_causes()
        session = self.session
        visible = session is not None and self.is_current and self.app.app_focus
        if visible and session is not None and session is not self._usage_of:
            self._usage_of = session
            self._usage = UsageFeed(session, self._at_work, self.table.change)
            self._following = False
        if visible and self._usage is not None and not self._following:
            self._following = True
            background(self, self._usage.run, "usage")
        elif not visible and self._following:
            self._following = False
            self.workers.cancel_group(self, "usage")

    def _at_work(self) -> list[Job]:
        names = self._in_view()
        active = self.console.store.active if names else {}
        jobs = [active[name] for name in names if name in active]
        return [job for job in jobs if job.start_time is not None and kind_of(job).has("metrics")]

    def _read_filter(self) -> None:
        bar = self.query_one(FilterBar)
        problem = ""
        try:
            # While a term is typed, its meaning is not known yet.
            query = parse(without_unfinished(bar.text) if bar.display else bar.text)
            self.rows.order.query = (
                query if not bar.display or self._finds(query) else self._query_before(query)
            )
        except QueryError as error:
            problem = error.message
        # The list keeps the last valid filter; the text is not changed.
        if problem != self._problem:
            self._problem = problem
            bar.show_problem(problem)

    def _finds(self, query: JobQuery) -> bool:
        now = self.console.clock()
        return any(query.matches(job, now) for job in self.console.store.jobs.values())

    def _query_before(self, query: JobQuery) -> JobQuery:
        """Return the query without an unmatched last word that starts a field's name, such as `sta`."""
        head, words = self.completions(query.text)
        fields = bool(words) and words[0][-1] in ":<"
        return parse(head) if fields else query

    @property
    def _largest_first(self) -> bool:
        return SORTS[self.rows.order.sort].largest_first != self.rows.order.reverse

    def _notice(self) -> None:
        console, table, notice = self.console, self.table, self.query_one(Notice)
        self._show_regions()
        shown = bool(table.keys)
        table.display = shown
        if self.show_stale(table.keys):
            return
        bar = self.query_one(FilterBar)
        if shown and (loud := self._filter_words(bar)):
            notice.show(loud, fix="esc clears it", alone=False)
        elif shown:
            notice.hide()
        elif console.store.jobs:
            label = self.rows.order.query.missing_label(console.store.jobs.values())
            why = f"No job has the label {label}. The fields are {', '.join(FIELDS)}." if label else ""
            notice.show("No job matches this filter.", f"{plain(bar.text)}\n{why}", "esc clears it")
        elif console.live:
            closed = self.access.read_only
            fix = plain(f"{closed.refuses('Launch')} {closed.fix}") if closed else self._first_run_fix()
            notice.show(FIRST_RUN, "", fix)
        else:
            notice.show(
                f"Connecting to {plain(console.context_name)}…", "", "2 shows the profiles in the meantime"
            )

    def _filter_words(self, bar: FilterBar) -> str:
        """Return the effect of the last session's filter, or why it has none; "" for other filters."""
        if bar.display or not bar.text:
            return ""
        if self._problem:
            return f"The filter /{bar.text} does nothing: {self._problem}."
        hidden = self.rows.hidden if bar.text == self.views.restored else 0
        return (
            f"The filter /{bar.text} hides {hidden:,} of {pieces(self.rows.total, 'job')}." if hidden else ""
        )

    def _first_run_fix(self) -> str:
        """Return advice on launching a first job in this context."""
        if self.group_reason():
            return "l launches one: choose a profile, then the context."
        profile, does = self.console.connection.context.first_profile
        return f"l launches one; {profile} {does}."

    def _show_regions(self) -> None:
        """Show one line for each error that prevents regions from being read."""
        console = self.console
        lines = []
        if console.trouble is None:
            now = console.clock()
            for region_error in region_errors(console.store.regions.values()):
                headline = not_reached(f"{region_error.names}:", region_error.failing_since, now)
                seen = f", seen {age(now - region_error.read_at)} ago" if region_error.read_at else ""
                again = " ctrl+r starts it." if isinstance(region_error.error, Stopped) else ""
                lines.append(f"! {headline}{seen} ({region_error.error.message}){again}")
        text = Content("\n").join([Content.styled(plain(line), "$text-warning") for line in lines[:4]])
        widget = self.query_one("#regions", Static)
        if widget.display != bool(lines) or widget.content != text:
            widget.update(text)
            widget.display = bool(lines)

    @property
    def filters(self) -> dict[str, str]:
        """The saved filters, which the command line completes."""
        return self.views.filters

    def refresh_frame(self) -> None:
        super().refresh_frame()
        self.views.note()

    def second_line(self) -> Line:
        left, right = super().second_line()
        return self.views.with_tabs(left), right

    def count_text(self) -> str:
        return self.rows.count_text() + ("   paused" if self._paused else "")

    def order_text(self) -> Content:
        rows = self.rows
        words = "ran" if rows.order.sort == "duration" else rows.order.sort
        by = f"by {rows.order.group}   " if rows.order.group else ""
        return Content.styled(f"{by}sorted by {words} {'▼' if self._largest_first else '▲'}", "$text-muted")

    # What is selected

    @property
    def current(self) -> Job | None:
        """The job under the cursor."""
        return self._row_actions.current

    def target(self, action: Action) -> object:
        if action.scope != self.SCOPE:
            return super().target(action)
        parts = (self.views, self._row_actions)
        return next((part for part in parts if hasattr(part, f"action_{action.method}")), self)

    def selected(self) -> list[Job]:
        """Return the marked jobs in the order shown, or the job under the cursor."""
        jobs, table = self.console.store.jobs, self.table
        # This method is called with each frame, and marks are rare.
        marked = [key for key in table.keys if key in table.marks] if table.marks else []
        names = marked or [table.cursor or ""]
        return [jobs[name] for name in names if name in jobs]

    def selection(self, scope: str) -> ActionSelection:
        return replace(super().selection(scope), current=self.current, jobs=self.selected())

    def unmet(self, condition: str, action: Action) -> str:
        table, current = self.table, self.current
        match condition:
            case "row":
                # The cursor may be on a group.
                return "No job is selected." if table.cursor is None else ""
            case "job":
                return "No job is selected." if current is None else ""
            case "tab":
                kind = kind_of(current)
                no_tab = f"A {kind.words.noun} has no {action.method} action; enter opens the job."
                return "" if kind.has(action.method) else no_tab
            case "two_runs":
                return not_comparable(self.selected())
            case "parts":
                return "This job has no parts to show or hide." if table.group(table.cursor) is None else ""
            case "filter" | "saved_filter" | "saved_filters":
                return self.views.unmet(condition)
            case "failure":
                return "" if self.console.connection.failing() else "Everything could be read."
        return super().unmet(condition, action)

    def footer_actions(self) -> list[Action]:
        """Return the footer's actions. A job can be cloned at any time, but the footer offers cloning only
        after the job's end."""
        shown, job = super().footer_actions(), self.current
        if job is not None and job.state.terminal:
            return shown
        return [action for action in shown if action.id != "jobs.clone"]

    # Actions

    def action_open(self) -> None:
        """Open the job under the cursor, or open or close a group."""
        self._open(self.table.cursor or "")

    @on(Table.Chosen)
    def _chosen(self, event: Table.Chosen) -> None:
        self._open(event.key)

    def _open(self, key: str) -> None:
        if key.startswith(HEAD):
            self.rows.fold(self.table, key)
        elif key:
            self.console.open_job(key)

    def action_fold(self) -> None:
        """Show or hide the parts of the job under the cursor, e.g. trials, or close a group."""
        group = self.table.group(self.table.cursor)
        if group is not None:
            self.rows.fold(self.table, group)

    async def action_launch(self) -> None:
        """Choose a profile to launch."""
        await self.action_do("app.profiles")

    def action_mark(self) -> None:
        """Mark or unmark the job, and go to the next row."""
        key = self.table.cursor
        if key is not None and not key.startswith(HEAD):
            self.table.mark([key], key not in self.table.marks)
            self.table.action_cursor_down()

    def action_mark_all(self) -> None:
        """Mark all shown jobs. If all are marked, unmark them."""
        keys = [
            key for key in self.table.keys if not key.startswith(HEAD) and key not in self.rows.tree.dimmed
        ]
        self.table.mark(keys, not self.table.marks.issuperset(keys))

    async def action_cancel(self) -> None:
        """Cancel the selected jobs, after confirmation."""
        from tui.screens.jobs.job_actions import confirm_cancel  # noqa: PLC0415 - not before the first paint

        jobs = allowed_jobs(action_named("jobs.cancel"), self.selection(self.SCOPE))
        confirm_cancel(self.console, jobs, then=self._unmark)

    def _unmark(self) -> None:
        """Clear the marks, so that the next key acts on the row under the cursor again."""
        self.table.mark(list(self.table.marks), False)
        self.refresh_frame()

    async def action_delete(self) -> None:
        """Delete the selected jobs, after confirmation."""
        from tui.screens.jobs.job_actions import confirm_delete  # noqa: PLC0415 - not before the first paint

        jobs = allowed_jobs(action_named("jobs.delete"), self.selection(self.SCOPE))
        confirm_delete(self.console, jobs, then=self._unmark)

    def action_sort(self) -> None:
        """Sort by the chosen column. Without a chosen column, or if it is already sorted, sort by the next
        column."""
        chosen = self.table.chosen_column
        if chosen in SORTS and chosen != self.rows.order.sort:
            self.rows.order.sort = chosen
        else:
            self.rows.order.sort = self._after(self.rows.order.sort, list(SORTS))
        self._show()

    def action_sort_by(self, column: str) -> None:
        """Sort by the column with this title or key."""
        title = column.casefold().strip()
        by_name = {name: c.key for c in self.table.columns for name in (c.title.casefold(), c.key)}
        key = by_name.get(title, title)
        if key not in SORTS:
            words = f"The list can't be sorted by {plain(column)}. Columns to sort by: {', '.join(SORTS)}."
            self.notify(words, severity="warning", markup=False)
            return
        self.rows.order.sort, self.rows.order.reverse = key, False
        self._show()

    def _after(self, current: str, choices: Sequence[str]) -> str:
        """Return the next choice; by kind only if there are several kinds."""
        shows_kinds = any(column.key == "kind" for column in self.table.columns)
        offered = [choice for choice in choices if choice != "kind" or shows_kinds]
        return offered[(offered.index(current) + 1) % len(offered)] if current in offered else offered[0]

    def action_reverse(self) -> None:
        """Reverse the order."""
        self.rows.order.reverse = not self.rows.order.reverse
        self._show()

    @on(Table.SortRequested)
    def _sort_asked(self, event: Table.SortRequested) -> None:
        if event.column == self.rows.order.sort:
            self.rows.order.reverse = not self.rows.order.reverse
        elif event.column in SORTS:
            self.rows.order.sort = event.column
        self._show()

    def action_group(self) -> None:
        """Group by the next property; after the last property, don't group."""
        self.rows.order.group = self._after(self.rows.order.group, GROUPS)
        self._show()

    def action_pause(self) -> None:
        """Pause or resume the screen. Reading continues."""
        self._paused = not self._paused
        self._show()

    def action_clone(self) -> None:
        """Save the job under the cursor as a profile."""
        from tui.screens.profiles.clone import clone  # noqa: PLC0415 - not before the first paint

        if self.current is not None:
            clone(self.console, self.current)

    def action_copy_command(self) -> None:
        """Copy the gcloud command of each selected job."""
        copy_command(self.console, self.selected())

    def action_copy(self) -> None:
        """Copy the resource name."""
        names = [job.name for job in self.selected()]
        self.console.send_copy("\n".join(names), pieces(len(names), "resource name"))

    def action_link(self) -> None:
        """Open the job's page, or show and copy its address."""
        from tui.screens.dialogs.link import show_link  # noqa: PLC0415 - not before the first paint

        if self.current is not None:
            show_link(self.console, self.current)

    def action_shell(self) -> None:
        """Open a shell in a replica of the job under the cursor."""
        from tui.screens.shell import open_shell  # noqa: PLC0415 - not before the first paint

        if self.current is not None:
            open_shell(self.console, self.current)

    def action_compare(self) -> None:
        """Show the differences of the two marked runs."""
        from tui.screens.jobs.compare import open_comparison  # noqa: PLC0415 - not before the first paint

        open_comparison(self.console, self.selected())

    def action_columns(self) -> None:
        """Choose the columns."""
        from tui.screens.jobs.columns import ColumnsScreen  # noqa: PLC0415 - not before the first paint

        self.app.push_screen(ColumnsScreen(self.query_one(JobTable)), lambda _: self.refresh_frame())

    def action_why(self) -> None:
        """Show every read error completely."""
        show_trouble(self.console)

    async def action_back(self) -> None:
        """Clear the filter, then the marks."""
        if self.table.chosen_column:
            self.table.choose_column("")
        elif not self.clear_filter():
            self.table.mark(list(self.table.marks), False)
