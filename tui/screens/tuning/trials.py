"""The trials of a tuning job, best first: parameters, results, and a picture of all trials."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual.content import Content
from textual.widget import Widget

from tui.actions.registry import Action
from tui.domain.core.formatting import number_text, pieces
from tui.domain.core.job import Job
from tui.domain.core.task import Task
from tui.domain.core.text import plain
from tui.domain.fields.trials import TrialRow, trial_fields
from tui.domain.tuning.study import Study, best, by_goal, study_of, trials_of
from tui.screens.job.tasks import TasksPane
from tui.screens.jobs.job_actions import confirm_cancel
from tui.screens.tuning.pictures import TrialPictures
from tui.store.job.feed import Changed, JobFeed
from tui.widgets.table.cells import row_cells
from tui.widgets.table.table import Cells, Column, Table

PICTURE_FROM = 16
"""Minimum height of the tab, in rows, at which a picture fits below the table."""
READ_SECONDS = 30.0


class TrialsTable(Table):
    """A table whose columns are the study's metrics and parameters."""

    @property
    def placed_columns(self) -> frozenset[str]:
        """The keys of the currently shown columns."""
        return frozenset(placed.column.key for placed in self._placed)

    def use(self, columns: Sequence[Column]) -> None:
        """Show these columns."""
        if tuple(columns) != self.columns:
            self.columns = tuple(columns)
            self.clear_widths()
            self._choose_columns()


class TrialsPane(TasksPane):
    """The Trials tab."""

    SCOPE = "trials"
    TITLE = "Trials"
    NEEDS = Changed.JOB
    DEFAULT_CSS = """
    TrialsPane TrialsTable { height: 1fr; }
    """

    def __init__(self, feed: JobFeed) -> None:
        self._trials_table = TrialsTable(trial_fields(Study()))
        super().__init__(feed, self._trials_table)
        self._newest_first = False
        self._pictures = TrialPictures()
        self._order: tuple[Sequence[Task], bool, list[str]] = ((), False, [])
        """The tasks, the order, and the ids in that order."""
        self._winner: tuple[Sequence[Task], Task | None] = ((), None)
        self._counted: tuple[Sequence[Task], int, int] = ((), 0, 0)
        """The tasks, and the numbers of ended and of running tasks, which each key press reads."""

    def compose(self) -> Iterable[Widget]:
        yield from super().compose()
        yield self._pictures

    def on_resize(self) -> None:
        self._show_picture()

    def show(self, changed: Changed) -> None:
        job = self.feed.job
        if self._paused or job is None:
            return
        self._trials_table.use(trial_fields(study_of(job)))
        ordered = self._ordered(job)
        self.table_view.show_lazily(ordered, self._row)
        self.table_view.change(ordered)
        if ordered:
            self.notice.hide()
        else:
            self.notice.show(
                "No trials yet.", "The service starts the trials once it has chosen their values."
            )
        self._show_picture()

    def tick(self) -> None:
        job = self.feed.job
        if job is not None and job.state.active and not self._paused:
            # An ended trial does not change with time.
            tasks = self._tasks
            active = [id for id in self.table_view.in_view if id in tasks and tasks[id].state.active]
            self.table_view.change(active)

    def status(self) -> Content:
        job = self.feed.job
        if job is None:
            return Content("")
        study = study_of(job)
        if job.tasks is not self._counted[0]:
            self._counted = job.tasks, sum(task.state.terminal for task in job.tasks), job.running_tasks
        _, ended, running = self._counted
        words = [f"{ended} of {trials_of(job)} trials ended"]
        if running:
            words.append(f"{running} running")
        goal, winner = study.goal, self._best
        if goal is not None and winner is not None:
            name = plain(goal.id)
            words.append(f"best {name} {number_text(winner.metrics[goal.id])} by trial {plain(winner.id)}")
        elif goal is not None:
            words.append(f"{goal.goal}s {plain(goal.id)}")
        shown = self._trials_table.placed_columns
        if shown and (hidden := sum(f"p:{parameter.id}" not in shown for parameter in study.parameters)):
            words.append(f"{pieces(hidden, 'parameter')} not shown")
        words.append("newest first" if self._newest_first else "best first")
        return Content.styled("   ".join(words), "$text-muted")

    def unmet(self, condition: str, action: Action) -> str:
        trial = self.current
        match condition:
            case "best":
                return "No trial has ended with a result yet." if self._best is None else ""
            case "active_trial" if trial is not None:
                return "" if trial.state.active else f"Trial {plain(trial.id)} has ended."
        return super().unmet(condition, action)

    def action_order(self) -> None:
        """Order the trials by the goal, or newest first."""
        self._newest_first = not self._newest_first
        self.show(Changed.JOB)

    def action_picture(self) -> None:
        """Show the next picture."""
        self._pictures.next(study_of(self.feed.job))
        self._show_picture()

    def action_best(self) -> None:
        """Go to the best trial."""
        if self._best is not None:
            self.table_view.move_to(self._best.id)

    def action_clone(self) -> None:
        """Save the job of the trial under the cursor, with its parameters, as a profile."""
        self.with_task_job("clone the trial", self._clone)

    def _clone(self, job: Job) -> None:
        from tui.screens.profiles.clone import clone  # noqa: PLC0415 - rarely used

        clone(self.console, job)

    def action_stop(self) -> None:
        """Cancel the job of the trial under the cursor, after confirmation."""
        self.with_task_job("stop the trial", lambda job: confirm_cancel(self.console, [job]))

    @property
    def _best(self) -> Task | None:
        """The best trial. Each key press reads this property, and a study may have a thousand trials."""
        job = self.feed.job
        if job is not None and job.tasks is not self._winner[0]:
            self._winner = job.tasks, best(job.tasks, study_of(job))
        return self._winner[1]

    def _ordered(self, job: Job) -> list[str]:
        """Return the ids of the trials in the order shown."""
        if job.tasks is not self._order[0] or self._newest_first is not self._order[1]:
            ordered = reversed(job.tasks) if self._newest_first else by_goal(job.tasks, study_of(job))
            self._order = job.tasks, self._newest_first, [task.id for task in ordered]
        return self._order[2]

    def _row(self, id: str) -> Cells:
        job = self.feed.job
        if job is None or id not in self._tasks:
            return {}
        task, now, winner = self._tasks[id], self.feed.as_of(), self._best
        best = winner is not None and winner.id == id
        row = TrialRow(task, now, best, self.console.costs.task_text(job, task, now))
        return row_cells(trial_fields(study_of(job)), row)

    def _show_picture(self) -> None:
        job = self.feed.job
        shown = job is not None and self.size.height >= PICTURE_FROM
        self._pictures.draw(job if shown else None, self.table_view.cursor)
