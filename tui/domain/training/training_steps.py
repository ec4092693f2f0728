"""Reported steps of a run that may have returned to an earlier step, by a restart or a rollback."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from tui.domain.core.training_progress import TrainingStep, pace


@dataclass(frozen=True, slots=True)
class History:
    """Steps that led to the current state, and steps that were undone.

    In `kept` the steps and their times increase. Each section of `undone` begins at the step to which the run
    returned, and ends at the furthest step before the return; the oldest section is first.
    """

    kept: tuple[TrainingStep, ...] = ()
    undone: tuple[tuple[TrainingStep, ...], ...] = ()


def history(samples: Sequence[TrainingStep]) -> History:
    """Separate effective and undone steps; `samples` are in time order."""
    kept: list[TrainingStep] = []
    undone: list[tuple[TrainingStep, ...]] = []
    for sample in samples:
        at = len(kept)
        while at and kept[at - 1].step >= sample.step:
            at -= 1
        if at < len(kept):
            # A step that is reported twice was not undone.
            if kept[-1].step > sample.step:
                undone.append(tuple(kept[at:]))
            del kept[at:]
        kept.append(sample)
    return History(tuple(kept), tuple(undone))


def remaining(samples: Sequence[TrainingStep], total: int | None) -> timedelta | None:
    """Return the remaining time at the pace of the last steps; `None` if it is unknown."""
    usual = pace(samples) if total else None
    return None if usual is None or not total else usual * max(0, total - samples[-1].step)
