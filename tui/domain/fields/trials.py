"""The columns of a study's trials, for their tab and `vxtui tasks`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from tui.domain.core.formatting import age, number_text
from tui.domain.core.task import Task
from tui.domain.core.text import plain
from tui.domain.fields.cell import UNKNOWN, Cell, Tone, muted, state_cell
from tui.domain.fields.field import Field
from tui.domain.fields.tasks import job_cell
from tui.domain.masking import mask_value
from tui.domain.tuning.study import Metric, Study, StudyParameter

FIRST_PARAMETERS = 3
"""Number of parameter columns that stay longest in a narrow table."""


class TrialRow(NamedTuple):
    """A row of a study's trials: a trial at a point in time."""

    task: Task
    now: datetime
    best: bool
    cost: str


def _id(row: TrialRow) -> Cell:
    id = Cell(row.task.id, strong=row.task.state.active or row.best)
    mark, tone = ("★ ", Tone.GOOD) if row.best else ("  ", Tone.NORMAL)
    return Cell(mark, tone, more=(id,), long=f"{row.task.id}{'*' * row.best}")


def _metric(metric: Metric) -> Callable[[TrialRow], Cell]:
    def cell(row: TrialRow) -> Cell:
        value = row.task.metrics.get(metric.id)
        if value is None:
            return UNKNOWN
        tone = Tone.GOOD if row.best else Tone.MUTED if row.task.state.active else Tone.NORMAL
        return Cell(number_text(value), tone, strong=row.best, long=_exact(value))

    return cell


def _parameter(parameter: StudyParameter) -> Callable[[TrialRow], Cell]:
    def cell(row: TrialRow) -> Cell:
        value = row.task.parameters.get(parameter.id)
        if value is None:
            return UNKNOWN
        if isinstance(value, int | float):
            return Cell(number_text(value), long=_exact(value))
        return Cell(str(mask_value(parameter.id, str(value))))

    return cell


def _exact(value: float) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


_FIRST: tuple[Field[TrialRow], ...] = (
    Field("id", "TRIAL", 6, max_width=8, whole=True, cell=_id),
    Field("state", "STATE", 12, max_width=13, rank=1, cell=lambda row: state_cell(row.task.state)),
)  # fmt: skip
_LAST: tuple[Field[TrialRow], ...] = (
    Field("step", "STEP", 6, max_width=12, rank=5, right=True, whole=True,
        cell=lambda row: UNKNOWN if row.task.step is None else Cell(f"{row.task.step:,}")),
    Field("duration", "RAN", 5, max_width=6, rank=4, right=True, whole=True,
        cell=lambda row: muted(age(row.task.duration(row.now)))),
    Field("cost", "COST", 6, max_width=12, rank=5, right=True, whole=True, cell=lambda row: muted(row.cost)),
    Field("job", "JOB", 10, max_width=20, rank=1_000, cell=lambda row: job_cell(row.task)),
    Field("reason", "", 4, rank=6, flex=True, optional=True,
        cell=lambda row: Cell(row.task.reason, Tone.BAD)),
)  # fmt: skip


@lru_cache(maxsize=4)
def trial_fields(study: Study) -> tuple[Field[TrialRow], ...]:
    """Return the columns of a study's trials: the metrics before the parameters."""
    metrics = [
        Field(
            f"m:{metric.id}", plain(metric.id).upper(), 8, max_width=16, rank=2, right=True, whole=True,
            cell=_metric(metric),
        )
        for metric in study.metrics
    ]  # fmt: skip
    parameters = [
        Field(
            f"p:{parameter.id}",
            plain(parameter.id).upper(),
            6,
            max_width=18,
            right=parameter.kind != "categorical",
            # The columns of the last parameters are hidden first, before the cost of a trial.
            rank=3 if at < FIRST_PARAMETERS else 10 + at,
            cell=_parameter(parameter),
        )
        for at, parameter in enumerate(study.parameters)
    ]
    return (*_FIRST, *metrics, *parameters, *_LAST)
