"""The study of a tuning job: its search space, its goal, and its best trials."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.domain.core.task import Task

Value = float | str


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric that the trials report."""

    id: str
    maximize: bool

    @property
    def goal(self) -> str:
        return "maximize" if self.maximize else "minimize"


@dataclass(frozen=True, slots=True)
class StudyParameter:
    """A parameter of the search space: `low` and `high` are bounds of a number, `values` are the choices."""

    id: str
    kind: str
    """`double`, `integer`, `discrete` or `categorical`."""
    low: float | None = None
    high: float | None = None
    values: tuple[Value, ...] = ()
    log: bool = False
    """Whether the scale is logarithmic, in either direction."""

    @property
    def words(self) -> str:
        """The range as text, e.g. `0.001 … 0.1 log` or `adam, sgd`."""
        if self.values:
            return ", ".join(value if isinstance(value, str) else f"{value:g}" for value in self.values)
        return f"{self.low:g} … {self.high:g}" + (" log" if self.log else "")


@dataclass(frozen=True, slots=True)
class Study:
    """The search of a tuning job. The first metric is the optimised one."""

    metrics: tuple[Metric, ...] = ()
    parameters: tuple[StudyParameter, ...] = ()
    """Parameters of the study; conditional parameters come last."""
    algorithm: str = ""
    """The search algorithm; "" for the service's default."""
    stopping: str = ""
    """The early stopping of unpromising trials; "" if it is disabled."""
    trials: int = 0
    parallel: int = 0
    failures: int = 0
    """Number of trials that may fail; with 0 the service decides."""

    @property
    def goal(self) -> Metric | None:
        """The optimised metric."""
        return self.metrics[0] if self.metrics else None


def trials_of(job: Job) -> int:
    """Return the final number of trials. A finished grid may have fewer trials than allowed."""
    done = job.state is JobState.SUCCEEDED and job.tasks
    return len(job.tasks) if done else study_of(job).trials or len(job.tasks)


def study_of(job: Job | None) -> Study:
    """Return the study of a tuning job; an empty study for other jobs."""
    return job.details if job is not None and isinstance(job.details, Study) else Study()


def value_of(task: Task, study: Study) -> float | None:
    """Return the trial's value of the goal; `None` if it has no finite value."""
    goal = study.goal
    value = task.metrics.get(goal.id) if goal is not None else None
    return value if value is not None and math.isfinite(value) else None


def counts(task: Task) -> bool:
    """Return whether the study counts the trial's value as a result: it ended and did not fail."""
    return task.state is JobState.SUCCEEDED


def by_goal(tasks: Iterable[Task], study: Study) -> list[Task]:
    """Return trials sorted by the goal, the best first; trials without a value follow in their order."""
    trials = list(tasks)
    sign = -1.0 if study.goal is None or study.goal.maximize else 1.0
    order = {task.id: at for at, task in enumerate(trials)}

    def key(task: Task) -> tuple[int, float, int]:
        value = value_of(task, study)
        rank = 2 if value is None else 0 if counts(task) or task.state.active else 1
        return rank, 0.0 if value is None else sign * value, order[task.id]

    return sorted(trials, key=key)


def best(tasks: Iterable[Task], study: Study) -> Task | None:
    """Return the trial with the best result; `None` if there is no result."""
    ended = [task for task in tasks if counts(task) and value_of(task, study) is not None]
    return next(iter(by_goal(ended, study)), None)


def best_so_far(tasks: Iterable[Task], study: Study) -> list[tuple[int, float, float]]:
    """Return the number (from 1), value and best value so far of each trial with a result, by end time."""
    ended = [
        (task.end_time, at, value)
        for at, task in enumerate(tasks)
        if counts(task) and (value := value_of(task, study)) is not None and task.end_time is not None
    ]
    better = max if study.goal is None or study.goal.maximize else min
    course: list[tuple[int, float, float]] = []
    for number, (_, _, value) in enumerate(sorted(ended), 1):
        course.append((number, value, better(value, course[-1][2]) if course else value))
    return course


def numbers_of(tasks: Sequence[Task], parameter: StudyParameter) -> list[float | None]:
    """Return each trial's value of a parameter as a number. A choice is its position; a missing value is
    `None`."""
    positions = {value: float(at) for at, value in enumerate(parameter.values)}

    def number(value: object) -> float | None:
        if parameter.kind == "categorical":
            return positions.get(str(value))
        return float(value) if isinstance(value, int | float) else None

    return [number(task.parameters.get(parameter.id)) for task in tasks]
