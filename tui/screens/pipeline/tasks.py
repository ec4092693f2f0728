"""The tasks of a pipeline, as an ordered tree or as a drawing, and the complete task under the cursor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual import on
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from tui.actions.registry import Action
from tui.domain.core.formatting import age, pieces
from tui.domain.core.states import JobState
from tui.domain.core.task import Task
from tui.domain.core.text import clip, plain
from tui.domain.fields.field import columns
from tui.domain.fields.pipeline_tasks import (
    PIPELINE_FIELDS,
    SKIPPED_WORDS,
    PipelineRow,
    task_names,
    task_state,
    value_text,
)
from tui.domain.pipeline.tree import (
    Branch,
    above,
    done,
    first_failed,
    folded_at_first,
    tree,
    visible,
)
from tui.screens.job.tasks import TasksPane
from tui.screens.pipeline.drawing import TasksDrawing
from tui.store.job.feed import Changed, JobFeed
from tui.widgets.dag.view import DagView
from tui.widgets.table.cells import content, row_cells
from tui.widgets.table.table import Cells, Table

DETAILS_FROM = 18
"""Minimum height of the tab, in rows, at which the complete task under the cursor fits."""
LABEL = 24
OPEN, CLOSED = "▾ ", "▸ "
COLUMNS = columns(PIPELINE_FIELDS)


class PipelineTasksPane(TasksPane):
    """The tasks as a graph or a table. Loops of many iterations start folded."""

    SCOPE = "pipeline"
    DEFAULT_CSS = """
    PipelineTasksPane {
        Table { height: 1fr; }
        #task { height: 40%; max-height: 13; border-top: solid $border-blurred; padding: 0 1; display: none; }
        &.roomy #task { display: block; }
        #task Static { min-height: 100%; }
    }
    """

    def __init__(self, feed: JobFeed) -> None:
        super().__init__(feed, Table(COLUMNS))
        self._branches: dict[str, Branch] = {}
        self._shown: Sequence[Task] = ()
        """The tasks shown by the tree `_branches`."""
        self._counts = ""
        self._folded: set[str] = set()
        self._known_groups: set[str] = set()
        self._drawing = TasksDrawing()
        self._drawn = False
        """Whether the drawing is shown rather than the tree."""
        self._details = Static("", markup=False)

    def compose(self) -> Iterable[Widget]:
        yield from super().compose()
        self._drawing.display = False
        yield self._drawing
        with VerticalScroll(id="task"):
            yield self._details

    def on_resize(self) -> None:
        self.set_class(self.size.height >= DETAILS_FROM, "roomy")

    def show(self, changed: Changed) -> None:
        job = self.feed.job
        if self._paused or job is None:
            return
        if job.tasks is not self._shown:
            self._shown, self._branches = job.tasks, tree(job.tasks)
            self._counts = self._count()
            groups = folded_at_first(self._branches)
            # A group is folded only once; a group that the user opens stays open.
            self._folded |= groups - self._known_groups
            self._known_groups |= groups
        shown = visible(self._branches, self._folded)
        self.table_view.show_lazily(shown, self._row)
        self.table_view.change(shown)
        if shown:
            self.notice.hide()
        else:
            self.notice.show("No tasks yet.", "The service has not created tasks for this pipeline.")
        if self._drawn:
            why = self._drawing.why_not(self._branches, self.feed.as_of())
            if why:
                self._draw(on=False)
                self.notify(f"Shown as a tree: {why}", severity="warning", markup=False)
        self._show_details()

    def default_focus(self) -> Widget:
        return self._drawing.dag if self._drawn else self.table_view

    def scopes(self) -> Iterable[str]:
        return (self.SCOPE, "dag" if self._drawn else "table")

    @property
    def current(self) -> Task | None:
        if not self._drawn:
            return super().current
        branch = self._branches.get(self._drawing.dag.cursor)
        return branch.task if branch is not None else None

    def back(self) -> bool:
        return self._drawn and self._drawing.close()

    def _draw(self, *, on: bool) -> None:
        self._drawn = on
        self._drawing.display, self.table_view.display = on, not on
        self.default_focus().focus()

    def tick(self) -> None:
        job = self.feed.job
        if job is None or not job.state.active or self._paused:
            return
        if self._drawn:
            self.show(Changed.JOB)
        else:
            # Update every bar in view, because the span that they share grows.
            self.table_view.change(list(self.table_view.in_view))
            if self.current is not None and self.current.state.active:
                self._show_details()

    def status(self) -> Content:
        return Content.styled(self._counts, "$text-muted")

    def _count(self) -> str:
        leaves = [branch.task for branch in self._branches.values() if not branch.parts]
        if not leaves:
            return ""
        words = [f"{sum(task.state.terminal for task in leaves)} of {pieces(len(leaves), 'task')} ended"]
        for state, word in ((JobState.RUNNING, "running"), (JobState.FAILED, "failed")):
            count = sum(task.state is state for task in leaves)
            words += [f"{count} {word}"] if count else []
        cached = sum(task.native_state == "SKIPPED" for task in leaves)
        words += [f"{cached} cached"] if cached else []
        return "   ".join(words)

    def unmet(self, condition: str, action: Action) -> str:
        task = self.current
        match condition:
            case "failed_task":
                return "" if first_failed(self._branches) else "No task has failed."
            case "tasks":
                return "" if self._branches else "There are no tasks yet."
            case "group":
                return "" if task is not None and self._group_of(task) else "This task has no parts."
            case "openable" if task is not None and self._branches[task.id].parts:
                return ""
            case "openable" | "task_job" if task is not None:
                if task.job:
                    return ""
                if reason := SKIPPED_WORDS.get(task.native_state):
                    return f"This task was {reason}: it has no job."
                return "No separate job runs this task."
        return super().unmet(condition, action)

    def action_open(self) -> None:
        """Open the job that runs the task, or open or close a group."""
        task = self.current
        if task is not None and self._branches[task.id].parts:
            self.action_fold()
        else:
            super().action_open()

    def action_fold(self) -> None:
        """Open or close the group under the cursor, or close the group around the task."""
        if self._drawn:
            self._open_drawn_group()
            return
        group = self._group_of(self.current) if self.current is not None else ""
        if group:
            self._folded ^= {group}
            if group in self._folded:
                self.table_view.move_to(group)
            self.show(Changed.JOB)

    def _open_drawn_group(self) -> None:
        """Show the content of the group under the cursor, or the tasks around the task."""
        task = self.current
        if task is not None and not self._branches[task.id].parts:
            self._drawing.close()
        elif task is not None and (why := self._drawing.open(task.id)):
            self.notify(f"Not drawn: {why}", severity="warning", markup=False)

    def action_task(self) -> None:
        """Show all facts about the task under the cursor."""
        from tui.screens.pipeline.task import TaskScreen  # noqa: PLC0415 - rarely opened

        if self.current is not None:
            self.app.push_screen(TaskScreen(self.feed, self.current.id))

    def action_log(self) -> None:
        """Open the log of the task's job."""
        if self.current is not None:
            self.post_message(self.JobRequested(self.current.job, "logs"))

    def action_draw(self) -> None:
        """Switch between the drawing and the tree. The cursor stays on its task."""
        task, on = self.current, not self._drawn
        if on:
            why = self._drawing.why_not(self._branches, self.feed.as_of())
            why = why or (self._drawing.go_to(task.id) if task is not None else "")
            if why:
                self.notify(f"Not drawn: {why}", severity="warning", markup=False)
                return
        self._draw(on=on)
        if not on and task is not None:
            self._reveal(task.id)

    def action_next_failed(self) -> None:
        """Go to the next task that failed, and open the groups around it."""
        failed = first_failed(self._branches, self.current.id if self.current is not None else "")
        if self._drawn:
            if why := self._drawing.go_to(failed):
                self.notify(f"Not drawn: {why}", severity="warning", markup=False)
            return
        self._reveal(failed)

    def _reveal(self, task_id: str) -> None:
        self._folded -= set(above(self._branches, task_id))
        self.show(Changed.JOB)
        self.table_view.move_to(task_id)

    @on(Table.Moved)
    @on(DagView.Moved)
    def _cursor_moved(self) -> None:
        self._show_details()

    @on(DagView.Chosen)
    def _chosen(self, event: DagView.Chosen) -> None:
        event.stop()
        self.action_open()

    def _group_of(self, task: Task) -> str:
        return task.id if self._branches[task.id].parts else task.parent

    # One task

    def _row(self, id: str) -> Cells:
        job = self.feed.job
        if job is None:
            return {}
        branch = self._branches[id]
        mark, more = "  ", ""
        if branch.parts:
            ended, count = done(self._branches, id)
            mark, more = (CLOSED, f"  {ended}/{count}") if id in self._folded else (OPEN, "")
        return row_cells(COLUMNS, PipelineRow(branch, self._branches, job, self.feed.as_of(), mark, more))

    def _show_details(self) -> None:
        task = self.current
        lines = self._full(task) if task is not None else []
        text, details = Content("\n").join(lines), self._details
        # A layout costs more than all other work for a key, and most tasks' texts fit.
        height, width = len(lines), details.size.width
        if any(line.cell_length > width or "\n" in line.plain for line in lines):
            height = text.get_height(details.styles.get_rules(), width) if width else 0
        fits = max(height, details.container_size.height) == details.size.height
        details.update(text, layout=not fits)

    def _full(self, task: Task) -> list[Content]:
        now = self.feed.as_of()
        lines = [Content.assemble((plain(task.name or task.id), "bold"), "   ", content(task_state(task)))]
        rows: list[tuple[str, str]] = []
        if task.start_time is not None:
            ended = f" to {task.end_time.astimezone():%H:%M:%S}" if task.end_time else ""
            times = f"{task.start_time.astimezone():%Y-%m-%d %H:%M:%S}{ended}   {age(task.duration(now))}"
            rows.append(("ran", times))
        rows += [("after", "  ".join(task_names(self._branches, task.depends_on)))] if task.depends_on else []
        rows += [("attempts", f"{task.attempts}")] if task.attempts is not None and task.attempts > 1 else []
        rows += [("job", task.job)] if task.job else []
        rows += [(f"in  {name}", value_text(name, value)) for name, value in task.parameters.items()]
        rows += [(f"out {name}", value_text(name, value)) for name, value in task.outputs.items()]
        lines += [
            Content.assemble((f"{plain(clip(label, 24)):<26}", "$text-muted"), plain(text))
            for label, text in rows
        ]
        if task.reason:
            lines.insert(1, Content.styled(plain(task.reason), "$text-error"))
        return lines
