"""Progress and outcome of a job's tasks: the best result, or the first failed task."""

from __future__ import annotations

from dataclasses import dataclass

from tui.domain.core.job import Job
from tui.domain.core.states import AT_WORK, JobState
from tui.domain.core.task import Task
from tui.domain.tuning.study import best, study_of, value_of


@dataclass(frozen=True, slots=True)
class Best:
    """The best result of a study so far."""

    metric: str
    value: float
    task: str


@dataclass(frozen=True, slots=True)
class Parts:
    """Numbers of a job's runnable tasks; `None` if the service does not report a number."""

    done: int | None
    total: int | None
    at_work: tuple[Task, ...] = ()
    failed: Task | None = None
    """The first failed task, which made the job fail."""
    best: Best | None = None

    @property
    def share(self) -> float | None:
        """The finished share, 0 to 1."""
        return self.done / self.total if self.total and self.done is not None else None


def has_parts(job: Job) -> bool:
    """Return whether a job's tasks are separate jobs; a job that only wraps another job has no parts."""
    return job.composite or len(job.tasks) > 1


def parts(job: Job) -> Parts:
    """Count the tasks of a job. A study defines its total number of tasks; other jobs have only their current
    number."""
    study, tasks = study_of(job), [task for task in job.tasks if not task.group]
    total = max(study.trials, len(tasks)) or None
    if not tasks:
        return Parts(None if job.state.terminal or job.start_time else 0, total)
    winner = best(tasks, study)
    value = value_of(winner, study) if winner is not None else None
    best_result = None
    if winner is not None and value is not None and study.goal is not None:
        best_result = Best(study.goal.id, value, winner.name or winner.id)
    failed = [task for task in tasks if task.state is JobState.FAILED]
    # A study continues without its failed trials.
    stopped = job.state is JobState.FAILED or study.goal is None
    return Parts(
        sum(task.state.terminal for task in tasks),
        total,
        tuple(task for task in tasks if task.state in AT_WORK),
        min(failed, key=_ended, default=None) if stopped else None,
        best_result,
    )


def _ended(task: Task) -> float:
    return task.end_time.timestamp() if task.end_time is not None else float("inf")
