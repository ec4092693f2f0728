"""How far the tasks of a job are, and what has come of them: the best result, or the task that failed."""

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
    """The tasks of a job that run something, as numbers. `None`: the service has not said."""

    done: int | None
    total: int | None
    at_work: tuple[Task, ...] = ()
    failed: Task | None = None
    """The task that made the job fail: the first that failed."""
    best: Best | None = None

    @property
    def share(self) -> float | None:
        """How much of it is done, 0 to 1."""
        return self.done / self.total if self.total and self.done is not None else None


def has_parts(job: Job) -> bool:
    """Whether its tasks are pieces of work of their own; a job that only wraps another one has none."""
    return job.composite or len(job.tasks) > 1


def parts(job: Job) -> Parts:
    """What a job's tasks come to. A study knows how many there will be, other jobs those that there are."""
    study, tasks = study_of(job), [task for task in job.tasks if not task.group]
    total = max(study.trials, len(tasks)) or None
    if not tasks:
        return Parts(None if job.state.terminal or job.start_time else 0, total)
    winner = best(tasks, study)
    value = value_of(winner, study) if winner is not None else None
    found = None
    if winner is not None and value is not None and study.goal is not None:
        found = Best(study.goal.id, value, winner.name or winner.id)
    failed = [task for task in tasks if task.state is JobState.FAILED]
    # A study goes on without the trials that fail.
    stopped = job.state is JobState.FAILED or study.goal is None
    return Parts(
        sum(task.state.terminal for task in tasks),
        total,
        tuple(task for task in tasks if task.state in AT_WORK),
        min(failed, key=_ended, default=None) if stopped else None,
        found,
    )


def _ended(task: Task) -> float:
    return task.end_time.timestamp() if task.end_time is not None else float("inf")
