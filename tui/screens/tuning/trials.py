"""The trials of a tuning job, the best first: parameters, what they measured, and a picture of all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from textual.content import Content
from textual.widget import Widget

from tui.actions.registry import Action
from tui.domain.core.formatting import NOT_MEASURED, age, pieces
from tui.domain.core.job import Job
from tui.domain.core.task import Task
from tui.domain.core.text import plain
from tui.domain.tuning.study import Study, best, by_goal, study_of, trials_of
from tui.screens.job.tasks import TasksPane
from tui.screens.jobs.job_actions import confirm_cancel
from tui.screens.tuning.pictures import TrialPictures, number_text
from tui.store.job.feed import Changed, JobFeed
from tui.widgets.state import state_content
from tui.widgets.table.table import Cells, Column, Table

BEST = "★"
PICTURE_FROM = 16
"""Rows of the tab from which there is room for a picture below the table."""
READ_SECONDS = 30.0
FIRST_PARAMETERS = 3
"""Columns that stay longest in a narrow table."""
_NONE = Content.styled(NOT_MEASURED, "$text-muted")
_FIRST = (
    Column("id", "TRIAL", 6, max_width=8, whole=True),
    Column("state", "STATE", 12, max_width=13, rank=1),
)
_LAST = (
    Column("step", "STEP", 6, max_width=12, rank=5, right=True, whole=True),
    Column("duration", "RAN", 5, max_width=6, rank=4, right=True, whole=True),
    Column("cost", "COST", 6, max_width=12, rank=5, right=True, whole=True),
    Column("job", "JOB", 10, max_width=20, rank=1_000),
    Column("reason", "", 4, rank=6, flex=True),
)


class TrialsTable(Table):
    """A table whose columns are the study's metrics and parameters."""

    @property
    def placed_columns(self) -> frozenset[str]:
        """Keys of the columns that are shown now."""
        return frozenset(placed.column.key for placed in self._placed)

    def use(self, columns: tuple[Column, ...]) -> None:
        """Show these columns."""
        if columns != self.columns:
            self.columns = columns
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
        self._trials_table = TrialsTable(trial_columns(Study()))
        super().__init__(feed, self._trials_table)
        self._newest_first = False
        self._pictures = TrialPictures()
        self._order: tuple[Sequence[Task], bool, list[str]] = ((), False, [])
        """The tasks, the order, and the ids in that order."""
        self._winner: tuple[Sequence[Task], Task | None] = ((), None)
        self._counted: tuple[Sequence[Task], int, int] = ((), 0, 0)
        """The tasks, and how many have ended and run; read with each key."""

    def compose(self) -> Iterable[Widget]:
        yield from super().compose()
        yield self._pictures

    def on_resize(self) -> None:
        self._show_picture()

    def show(self, changed: Changed) -> None:
        job = self.feed.job
        if self._paused or job is None:
            return
        self._trials_table.use(trial_columns(study_of(job)))
        ordered = self._ordered(job)
        self.table_view.show_lazily(ordered, self._row)
        self.table_view.change(ordered)
        if ordered:
            self.notice.hide()
        else:
            self.notice.show(
                "No trials yet.", "The service starts them as soon as it has chosen their values."
            )
        self._show_picture()

    def tick(self) -> None:
        job = self.feed.job
        if job is not None and job.state.active and not self._paused:
            # A trial that has ended does not change with time.
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
        """Order the trials by the goal, or the newest first."""
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
        """Cancel the job of the trial under the cursor, after a question."""
        self.with_task_job("stop the trial", lambda job: confirm_cancel(self.console, [job]))

    @property
    def _best(self) -> Task | None:
        """The best trial. It is read with each key, and a study may have a thousand trials."""
        job = self.feed.job
        if job is not None and job.tasks is not self._winner[0]:
            self._winner = job.tasks, best(job.tasks, study_of(job))
        return self._winner[1]

    def _ordered(self, job: Job) -> list[str]:
        """The ids of the trials in the order shown."""
        if job.tasks is not self._order[0] or self._newest_first is not self._order[1]:
            ordered = reversed(job.tasks) if self._newest_first else by_goal(job.tasks, study_of(job))
            self._order = job.tasks, self._newest_first, [task.id for task in ordered]
        return self._order[2]

    def _row(self, id: str) -> Cells:
        job = self.feed.job
        if job is None or id not in self._tasks:
            return {}
        return self._cells(job, self._tasks[id], study_of(job), self._best, self.feed.as_of())

    def _cells(self, job: Job, task: Task, study: Study, winner: Task | None, now: datetime) -> Cells:
        is_best = winner is not None and winner.id == task.id
        mark = (f"{BEST} ", "$text-success") if is_best else ("  ", "")
        cells: dict[str, Content | str] = {
            "id": Content.assemble(mark, (plain(task.id), "bold" if task.state.active or is_best else "")),
            "state": state_content(task.state),
            "step": _NONE if task.step is None else Content(f"{task.step:,}"),
            "duration": Content.styled(age(task.duration(now)), "$text-muted"),
            "cost": Content.styled(self.console.costs.task_text(job, task, now), "$text-muted"),
            "job": Content.styled(plain(task.job.rpartition("/")[2]) or NOT_MEASURED, "$text-muted"),
            "reason": Content.styled(plain(task.reason), "$text-error"),
        }
        for metric in study.metrics:
            value = task.metrics.get(metric.id)
            style = "bold $text-success" if is_best else "$text-muted" if task.state.active else ""
            cells[f"m:{metric.id}"] = _NONE if value is None else Content.styled(number_text(value), style)
        for parameter in study.parameters:
            cells[f"p:{parameter.id}"] = _value(task.parameters.get(parameter.id))
        return cells

    def _show_picture(self) -> None:
        job = self.feed.job
        shown = job is not None and self.size.height >= PICTURE_FROM
        self._pictures.draw(job if shown else None, self.table_view.cursor)


def trial_columns(study: Study) -> tuple[Column, ...]:
    """The columns of a study's trials: the metrics before the parameters."""
    metrics = [
        Column(f"m:{metric.id}", plain(metric.id).upper(), 8, max_width=16, rank=2, right=True, whole=True)
        for metric in study.metrics
    ]
    parameters = [
        Column(
            f"p:{parameter.id}",
            plain(parameter.id).upper(),
            6,
            max_width=18,
            right=parameter.kind != "categorical",
            # The columns of the last parameters make room first, before the cost of a trial.
            rank=3 if at < FIRST_PARAMETERS else 10 + at,
        )
        for at, parameter in enumerate(study.parameters)
    ]
    return (*_FIRST, *metrics, *parameters, *_LAST)


def _value(value: object) -> Content:
    if value is None:
        return _NONE
    return Content(plain(number_text(value) if isinstance(value, int | float) else str(value)))
