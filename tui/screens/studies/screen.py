"""Studies and pipelines: jobs that are made of tasks, with their progress and results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import ClassVar

from textual import on
from textual.binding import BindingType
from textual.content import Content

from tui.actions.availability import ActionSelection, allowed_jobs
from tui.actions.registry import Action, bindings
from tui.actions.registry import action as action_named
from tui.domain.core.formatting import NOT_MEASURED, age, bar, pieces
from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.domain.core.text import plain
from tui.domain.fields.job_row import JobRow, JobSources
from tui.domain.fields.jobs import SORTS, progress_cell
from tui.domain.jobs.parts import Parts, has_parts, parts
from tui.domain.jobs.query import JobQuery, QueryError, completions, parse, without_unfinished
from tui.kinds.kind import Kind, resolve
from tui.kinds.registry import kind_of, kinds
from tui.screens.jobs.views import not_comparable
from tui.screens.list_screen import ListScreen
from tui.store.jobs.table import JobChange
from tui.widgets.filter_bar import FilterBar
from tui.widgets.notice import Notice
from tui.widgets.state import state_content
from tui.widgets.table.cells import content
from tui.widgets.table.job_table import ChangingTable
from tui.widgets.table.table import Cells, Column, Table

BAR = 8
MOST_NAMES = 3
ORDERS = ("age", "state", "kind", "name")
COLUMNS = (
    Column("state", "STATE", 11, max_width=13),
    Column("name", "NAME", 14, max_width=44),
    Column("kind", "KIND", 8, max_width=18, rank=4),
    Column("done", "DONE", 7, max_width=22, rank=1, whole=True),
    Column("result", "RESULT", 26, flex=True, max_width=80),
    Column("running", "RUN", 3, max_width=5, rank=3, right=True, whole=True),
    Column("region", "REGION", 12, max_width=28, rank=8, whole=True),
    Column("age", "AGE", 4, max_width=6, rank=5, right=True, whole=True),
    Column("duration", "RAN", 5, max_width=6, rank=6, right=True, whole=True),
    Column("cost", "COST", 7, max_width=17, rank=2, right=True, whole=True),
)
WOULD_COST = replace(COLUMNS[-1], title="WOULD COST")
_NONE = Content.styled(NOT_MEASURED, "$text-muted")


def listed_kinds() -> tuple[Kind, ...]:
    """Return the kinds whose jobs have tasks."""
    return tuple(kind for kind in kinds() if kind.task_kinds)


class StudiesScreen(ListScreen):
    """Jobs that have tasks. The keys of a kind work on its rows as on its screen."""

    SCOPE = "studies"
    HEADING = "Studies & pipelines"
    PLACEHOLDER = "state:failed  kind:tuning  team:nlp  age<2d  or any text"
    BINDINGS: ClassVar[list[BindingType]] = bindings(
        "studies", *(kind.scope for kind in listed_kinds() if kind.actions)
    )

    def __init__(self) -> None:
        super().__init__()
        self._sort = ORDERS[0]
        self._total = 0
        self._problem = ""

    def make_table(self) -> Table:
        return ChangingTable(COLUMNS)

    def on_mount(self) -> None:
        self.console.jobs_changed.subscribe(self, self._on_change)
        self.console.connection_changed.subscribe(self, lambda _: self.reload())
        self.console.prices_changed.subscribe(self, lambda _: self.reload())

    def on_screen_resume(self) -> None:
        # The content changes as often as the jobs.
        self.console.connection.watch(True)

    def on_screen_suspend(self) -> None:
        self.console.connection.watch(False)

    def completions(self, text: str) -> tuple[str, Sequence[str]]:
        """Return the completions of `tab` in the filter."""
        return completions(text, self._listed())

    # Content

    def _listed(self) -> list[Job]:
        keys = {kind.key for kind in listed_kinds()}
        return [job for job in self.console.store.jobs.values() if job.kind in keys and has_parts(job)]

    def _on_change(self, change: JobChange) -> None:
        if self.is_current:
            self._show((*change.added, *change.changed))

    def reload(self) -> None:
        self._show(self.console.store.jobs)

    def _show(self, changed: Iterable[str]) -> None:
        """Show the list. The rows of `changed` are created again."""
        if not self.has_widgets:
            return
        query, now, listed = self._query(), self.console.clock(), self._listed()
        jobs = [job for job in listed if query.matches(job, now)]
        sources = JobSources(words=lambda job: kind_of(job).words)
        jobs.sort(key=lambda job: SORTS[self._sort].sort_key(JobRow(job, now, sources), job.name))
        self._total = len(listed)
        table = self.table
        assert isinstance(table, ChangingTable)
        table.use(COLUMNS if not self.console.bills_nothing else (*COLUMNS[:-1], WOULD_COST))
        table.set_sort(self._sort, False)
        table.show_lazily([job.name for job in jobs], self._row)
        table.change(changed)
        table.display = bool(jobs)
        self._notice(filtered=bool(query.terms))
        self.refresh_frame()

    def tick(self) -> None:
        """Update the ages and costs of the rows in view."""
        if self.is_current:
            self.table.change(list(self.table.in_view))
            self._notice(filtered=bool(self.query_one(FilterBar).text))
        super().tick()

    def _query(self) -> JobQuery:
        """Return the query of the filter. An invalid filter shows its problem and hides nothing."""
        filter_bar, problem, query = self.query_one(FilterBar), "", JobQuery()
        try:
            query = parse(without_unfinished(filter_bar.text) if filter_bar.display else filter_bar.text)
        except QueryError as error:
            problem = error.message
        if problem != self._problem:
            self._problem = problem
            filter_bar.show_problem(problem)
        return query

    def _row(self, name: str) -> Cells:
        job = self.console.store.jobs.get(name)
        if job is None:
            return {}
        console = self.console
        now = min(console.clock(), console.connection.as_of(job))
        kind, progress, muted = kind_of(job), parts(job), "$text-muted"
        cost, parent = console.spent_words(job, now), console.store.parent_of(job)
        of = f"{plain(parent.display_name or parent.id)} ▸ " if parent is not None else ""
        title = plain(job.display_name) or plain(job.id)
        return {
            "state": state_content(job.state),
            "name": Content.assemble((of, muted), (title, "bold" if job.state.active else "")),
            "kind": Content.styled(kind.words.short or kind.words.noun, muted),
            "done": _done(job, progress),
            "result": _result(job, progress, now),
            "running": Content(f"{len(progress.at_work)}")
            if progress.at_work
            else Content.styled("–", muted),
            "region": Content.styled(plain(job.region), muted),
            "age": Content.styled(age(job.age(now)), muted),
            "duration": Content.styled(age(job.duration(now)), muted),
            "cost": Content.styled(cost, muted if console.unbilled(job) or cost == NOT_MEASURED else ""),
        }

    def _notice(self, *, filtered: bool) -> None:
        console, notice, shown = self.console, self.query_one(Notice), self.table.keys
        if self.show_stale(shown):
            return
        if shown:
            notice.hide()
        elif filtered and self._total:
            text = plain(self.query_one(FilterBar).text)
            notice.show("No study or pipeline matches this filter.", text, "esc clears it")
        elif console.live:
            names = " or a ".join(kind.words.noun for kind in listed_kinds())
            explanation = "Jobs that consist of tasks are listed here with their progress and best result."
            notice.show("No studies or pipelines here yet.", explanation, f"l launches a {names}")
        else:
            notice.show(f"Connecting to {plain(console.context_name)}…", "", "")

    def count_text(self) -> str:
        shown = len(self.table.keys)
        return f"{shown:,}" if shown == self._total else f"{shown:,} of {self._total:,}"

    def order_text(self) -> Content:
        return Content.styled(f"sorted by {self._sort}", "$text-muted")

    # What is selected

    @property
    def job(self) -> Job | None:
        """The job under the cursor, on which a kind's own actions act."""
        return self.console.store.jobs.get(self.table.cursor or "") if self.has_widgets else None

    def selected(self) -> list[Job]:
        """Return the marked jobs in the order shown, or the job under the cursor."""
        jobs, table = self.console.store.jobs, self.table
        names = [key for key in table.keys if key in table.marks] or [table.cursor or ""]
        return [jobs[name] for name in names if name in jobs]

    def scopes(self) -> tuple[str, ...]:
        job = self.job
        own = (kind_of(job).scope,) if job is not None and kind_of(job).actions else ()
        return (self.SCOPE, *own, "app")

    def target(self, action: Action) -> object:
        job = self.job
        if job is not None and action.scope == kind_of(job).scope:
            return resolve(kind_of(job).target)(self)
        return super().target(action)

    def selection(self, scope: str) -> ActionSelection:
        return replace(super().selection(scope), current=self.job, jobs=self.selected())

    def unmet(self, condition: str, action: Action) -> str:
        match condition:
            case "job":
                return "No study or pipeline is selected." if self.job is None else ""
            case "two_runs":
                return not_comparable(self.selected())
        return super().unmet(condition, action)

    # Actions

    def action_open(self) -> None:
        """Open the job under the cursor."""
        if self.job is not None:
            self.console.open_job(self.job.name, tab="tasks")

    @on(Table.Chosen)
    async def _chosen(self) -> None:
        await self.action_do("studies.open")

    async def action_launch(self) -> None:
        """Choose a profile to launch."""
        await self.action_do("app.profiles")

    def action_mark(self) -> None:
        """Mark or unmark the job, and go to the next row."""
        table = self.table
        if table.cursor is not None:
            table.mark([table.cursor], table.cursor not in table.marks)
            table.action_cursor_down()

    def action_compare(self) -> None:
        """Show the differences of the two marked runs."""
        from tui.screens.jobs.compare import open_comparison  # noqa: PLC0415 - rarely used

        open_comparison(self.console, self.selected())

    def action_cancel(self) -> None:
        """Cancel the selected jobs, after confirmation."""
        from tui.screens.jobs.job_actions import confirm_cancel  # noqa: PLC0415 - rarely used

        jobs = allowed_jobs(action_named("studies.cancel"), self.selection(self.SCOPE))
        confirm_cancel(self.console, jobs, then=self._unmark)

    def _unmark(self) -> None:
        self.table.mark(list(self.table.marks), False)
        self.refresh_frame()

    def action_sort(self) -> None:
        """Sort by the next of age, state, kind and name."""
        self._sort = ORDERS[(ORDERS.index(self._sort) + 1) % len(ORDERS)]
        self.reload()

    def action_copy(self) -> None:
        """Copy the resource names of the selected jobs."""
        names = [job.name for job in self.selected()]
        self.console.send_copy("\n".join(names), pieces(len(names), "resource name"))

    async def action_back(self) -> None:
        """Clear the filter, then the marks, then return to the jobs."""
        if self.table.marks and not self.query_one(FilterBar).text:
            self._unmark()
        else:
            await super().action_back()


def _done(job: Job, progress: Parts) -> Content:
    """Return `██████░░ 12/20`: the numbers of ended tasks and of all tasks."""
    if progress.done is None or progress.total is None:
        return _NONE
    share = progress.share or 0.0
    colour = "$text-success" if job.state is JobState.RUNNING else "$text-muted"
    return Content.assemble((bar(share, BAR), colour), f" {progress.done:,}/{progress.total:,}")


def _result(job: Job, progress: Parts, now: datetime) -> Content:
    """Return the best result, the failed task or the running parts; otherwise the text that the jobs list
    shows."""
    if progress.failed is not None:
        why = f": {plain(progress.failed.reason)}" if progress.failed.reason else ""
        return Content.styled(
            f"{plain(progress.failed.name or progress.failed.id)} failed{why}", "$text-error"
        )
    if progress.best is not None:
        value = Content.styled(f"{progress.best.value:.4g}", "bold")
        words = Content.assemble(
            f"{plain(progress.best.metric)} ", value, f" by trial {plain(progress.best.task)}"
        )
        failed = job.state is JobState.FAILED and job.error is not None
        return Content.assemble(content(progress_cell(JobRow(job, now))), "  ", words) if failed else words
    if job.state is JobState.FAILED or job.state in {JobState.QUEUED, JobState.PENDING}:
        return content(progress_cell(JobRow(job, now)))
    if not progress.at_work:
        return _NONE
    names = [plain(task.name or task.id) for task in progress.at_work]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return Content.styled(f"{', '.join(names[:MOST_NAMES])}{more}", "$text-muted")
