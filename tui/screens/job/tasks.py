"""The tasks of a job: parts that are jobs, or have jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from textual import on
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from tui.actions.registry import Action
from tui.domain.core.formatting import pieces
from tui.domain.core.job import Job, shell_problem
from tui.domain.core.task import Task
from tui.domain.fields.field import columns
from tui.domain.fields.tasks import TASK_FIELDS
from tui.screens.job.pane import JobPane
from tui.screens.not_connected import not_connected
from tui.screens.workers import background
from tui.session import BackendError
from tui.store.job.feed import Changed, JobFeed
from tui.widgets.table.cells import row_cells
from tui.widgets.table.table import Table

COLUMNS = columns(TASK_FIELDS)


class TasksPane(JobPane):
    """The Tasks tab."""

    SCOPE = "tasks"
    EXTRA = ("table",)
    TITLE = "Tasks"

    class JobRequested(Message):
        """Open the job of a task at this tab."""

        def __init__(self, name: str, tab: str = "") -> None:
            super().__init__()
            self.name, self.tab = name, tab

    def __init__(self, feed: JobFeed, table: Table | None = None) -> None:
        super().__init__(feed)
        self.table_view = table or Table(COLUMNS)
        self._paused = False
        self._by_id: tuple[Sequence[Task], dict[str, Task]] = ((), {})

    def compose(self) -> Iterable[Widget]:
        yield self.table_view
        yield self.notice

    def default_focus(self) -> Widget:
        return self.table_view

    def status(self) -> Content:
        return Content.styled(pieces(len(self._tasks), "task"), "$text-muted")

    def pause(self, on: bool) -> None:
        self._paused = on

    def show(self, changed: Changed) -> None:
        if self._paused:
            return
        rows = {task.id: row_cells(COLUMNS, task) for task in self._tasks.values()}
        self.table_view.show(list(rows), rows)
        notice = self.notice
        if rows:
            notice.hide()
        else:
            notice.show("No tasks yet.", "The service has not created tasks for this job.")

    @property
    def _tasks(self) -> dict[str, Task]:
        job = self.feed.job
        tasks = job.tasks if job else ()
        # This property is read with each key press, and a job may have a thousand tasks.
        if tasks is not self._by_id[0]:
            self._by_id = tasks, {task.id: task for task in tasks}
        return self._by_id[1]

    @property
    def current(self) -> Task | None:
        """The task under the cursor."""
        return self._tasks.get(self.table_view.cursor or "")

    @property
    def selected_job(self) -> None:
        """Return None, because the job of a task is read and checked before it is changed."""

    def unmet(self, condition: str, action: Action) -> str:
        task = self.current
        match condition:
            case "task":
                return "No task is selected." if task is None else ""
            case "task_job":
                has_job = task is not None and bool(task.job)
                return "" if has_job else "The service does not report which job runs this task."
        return super().unmet(condition, action)

    def action_open(self) -> None:
        """Open the job that runs the task."""
        if self.current is not None and self.current.job:
            self.post_message(self.JobRequested(self.current.job))

    @on(Table.Chosen)
    def _opened(self, event: Table.Chosen) -> None:
        event.stop()
        self.action_open()

    def action_shell(self) -> None:
        """Open a shell in a replica of the task's job."""
        self.with_task_job("open a shell", self._open_shell)

    def _open_shell(self, job: Job) -> None:
        from tui.screens.shell import open_shell  # noqa: PLC0415 - rarely used

        if problem := shell_problem(job):
            self.notify(problem, severity="warning", markup=False)
        else:
            open_shell(self.console, job)

    def with_task_job(self, purpose: str, act: Callable[[Job], None]) -> None:
        """Read the job of the task under the cursor and act on it. `purpose` names the action in an error."""
        task = self.current
        if task is None or not task.job:
            return
        console, name = self.console, task.job

        async def read() -> None:
            session = console.session
            if session is None:
                console.notify(not_connected(console), severity="warning", markup=False)
                return
            known = console.store.jobs.get(name)
            try:
                job = known or await session.backend.job_service(name).get(name)
            except BackendError as error:
                console.notify(f"Can't {purpose}: {error.message}", severity="error", markup=False)
                return
            act(job)

        background(self, read, purpose)

    def action_copy(self) -> None:
        """Copy the resource name of the task's job."""
        if self.current is not None:
            self.console.send_copy(self.current.job, "the resource name")
