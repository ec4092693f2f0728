"""One complete task of a pipeline, line by line: values, artifacts with their metadata, and attempts."""

from __future__ import annotations

from collections.abc import Iterable

from textual import on
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from tui.actions.registry import Action, bindings
from tui.domain.core.formatting import age, pieces
from tui.domain.core.task import Task
from tui.domain.core.text import clip, plain
from tui.domain.fields.pipeline_tasks import task_state
from tui.domain.pipeline.facts import Fact, attempts, facts, same_work
from tui.screens.dialogs.link import show_link
from tui.screens.list_screen import ListScreen
from tui.screens.not_connected import not_connected
from tui.screens.workers import background
from tui.session import BackendError
from tui.store.job.feed import JobFeed
from tui.widgets.filter_bar import FilterBar
from tui.widgets.header_lines import Line
from tui.widgets.notice import Notice
from tui.widgets.table.cells import content
from tui.widgets.table.table import Cells, Column, Table

COLUMNS = (
    Column("part", "", 7, max_width=8, whole=True),
    Column("name", "NAME", 12, max_width=44, whole=True),
    Column("value", "VALUE", 20, flex=True),
)
LONGEST_VALUE = 20_000
"""Number of shown characters of a value; a copy contains all characters."""


class TaskScreen(ListScreen):
    """The screen of one task. The feed of the pipeline's screen reads its data."""

    SCOPE = "task"
    HEADING = "Task"
    PLACEHOLDER = "text in a name or a value"
    BINDINGS = bindings("task")
    CSS = """
    TaskScreen #value {
        height: 30%; border-top: solid $border-blurred; padding: 0 1; scrollbar-size-vertical: 1;
    }
    """

    def __init__(self, feed: JobFeed, task_id: str) -> None:
        super().__init__()
        self.feed = feed
        self.task_id = task_id
        self._facts: dict[str, Fact] = {}
        self._value = Static("", markup=False)
        self._shown_value = ""

    def make_table(self) -> Table:
        return Table(COLUMNS)

    def compose_body(self) -> Iterable[Widget]:
        yield from super().compose_body()
        with VerticalScroll(id="value", can_focus=False):
            yield self._value

    @property
    def shown_task(self) -> Task | None:
        """The task as last read."""
        job = self.feed.job
        return next((task for task in job.tasks if task.id == self.task_id), None) if job else None

    # Content

    def tick(self) -> None:
        if self.is_current:
            self.reload()

    def reload(self) -> None:
        job, task = self.feed.job, self.shown_task
        if job is None or task is None:
            self.query_one(Notice).show("This task no longer exists.", "", "esc goes back", bad=True)
            return
        origin = same_work(task, job, self.console.store.jobs.values())
        lines = facts(task, {other.id: other for other in job.tasks}, job.name, origin)
        search = self.query_one(FilterBar).text.casefold()
        self._facts = {
            fact.key: fact
            for fact in lines
            if not search or search in f"{fact.part} {fact.name} {fact.value}".casefold()
        }
        self.table.show(list(self._facts), {key: _cells(fact) for key, fact in self._facts.items()})
        self.table.display = bool(self._facts)
        notice = self.query_one(Notice)
        if self._facts:
            notice.hide()
        elif search:
            notice.show("No line contains this text.", plain(search), "esc clears it")
        else:
            notice.show("Nothing is known of this task yet.", "It has not started.")
        self._show_value()
        self.refresh_frame()

    @on(Table.Moved)
    def _cursor_moved(self) -> None:
        self._show_value()

    def _show_value(self) -> None:
        fact = self.current
        text = fact.value if fact is not None else ""
        if text != self._shown_value:
            self._shown_value = text
            lines = clip(text, LONGEST_VALUE).splitlines()
            self._value.update(Content("\n").join(Content(plain(line)) for line in lines))
            self.query_one("#value", VerticalScroll).scroll_home(animate=False)

    @property
    def current(self) -> Fact | None:
        """The line under the cursor."""
        return self._facts.get(self.table.cursor or "")

    def top_line(self) -> Line:
        job, task = self.feed.job, self.shown_task
        context = plain(self.feed.session.backend.info.name)
        pipeline = plain((job.display_name or job.id) if job else self.feed.job_name.rpartition("/")[2])
        crumb = Content.styled(
            f"{context} ▸ Jobs ▸ {clip(pipeline, max(8, self.size.width // 3))} ▸ ", "$text-muted"
        )
        if task is None:
            return crumb, Content("")
        name = clip(plain(task.name or task.id), max(8, self.size.width // 3))
        ran = age(task.duration(self.feed.as_of())) if task.start_time else ""
        return Content.assemble(crumb, (name, "bold"), "   ", content(task_state(task)), f" {ran}"), Content(
            ""
        )

    def count_text(self) -> str:
        task = self.shown_task
        words = [pieces(len(self._facts), "line")]
        if task is not None and task.start_time is not None:
            ended = f" to {task.end_time.astimezone():%H:%M:%S}" if task.end_time else ""
            words.append(f"{task.start_time.astimezone():%Y-%m-%d %H:%M:%S}{ended}")
        return "   ".join(words)

    # Actions

    def unmet(self, condition: str, action: Action) -> str:
        fact = self.current
        match condition:
            case "line":
                return "No line is selected." if fact is None else ""
            case "linked":
                linked = fact is not None and bool(fact.job or fact.task)
                return "" if linked else "This line has no job and no task to open."
            case "task_job":
                return "" if self._job else "No separate job runs this task."
        return super().unmet(condition, action)

    @property
    def _job(self) -> str:
        """The job of the attempt under the cursor, or of the last attempt; "" without a job."""
        fact, task = self.current, self.shown_task
        if fact is not None and fact.part == "attempt":
            return fact.job
        runs = attempts(task) if task is not None else []
        return runs[-1][0] if runs else ""

    @on(Table.Chosen)
    async def _chosen(self, event: Table.Chosen) -> None:
        event.stop()
        await self.action_do("task.open")

    def action_open(self) -> None:
        """Open the job or the task that the line names."""
        fact = self.current
        if fact is not None and fact.task:
            self.app.push_screen(TaskScreen(self.feed, fact.task))
        elif fact is not None:
            self.console.open_job(fact.job)

    def action_log(self) -> None:
        """Open the log of an attempt."""
        self.console.open_job(self._job, tab="logs")

    def action_copy(self) -> None:
        """Copy the value of the line."""
        if self.current is not None:
            self.console.send_copy(self.current.value, f"the {plain(self.current.part)}")

    def action_link(self) -> None:
        """Show and copy the page of the task's job."""
        console, name = self.console, self._job

        async def read() -> None:
            session = console.session
            if session is None:
                console.notify(not_connected(console), severity="warning", markup=False)
                return
            try:
                job = console.store.jobs.get(name) or await session.backend.job_service(name).get(name)
            except BackendError as error:
                console.notify(f"Can't read the job: {error.message}", severity="error", markup=False)
                return
            show_link(console, job)

        background(self, read, "link")

    def action_scroll_on(self) -> None:
        """Scroll the value down."""
        self.query_one("#value", VerticalScroll).scroll_page_down(animate=False)

    def action_scroll_back(self) -> None:
        """Scroll the value up."""
        self.query_one("#value", VerticalScroll).scroll_page_up(animate=False)

    async def action_back(self) -> None:
        """Clear the search, or close the screen."""
        if not self.clear_filter():
            self.dismiss()


def _cells(fact: Fact) -> Cells:
    leads = bool(fact.job or fact.task)
    style = "$text-error" if fact.name == "error" else "$text-accent" if leads else ""
    value = plain(" ".join(clip(fact.value, 1_000).split()))
    return {
        "part": Content.styled(fact.part, "$text-muted"),
        "name": Content(plain(fact.name)),
        "value": Content.styled(value, style),
    }
