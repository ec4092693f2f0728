"""Reported steps of a run that may have returned to an earlier step, by a restart or a rollback."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from statistics import median_low

from tui.domain.core.training_progress import TrainingStep

RECENT = 40
"""Number of last reported steps that determine the pace."""
LONG = 20
"""Multiple of the usual duration above which a step counts as a restart and is left out of the pace."""


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
    """Return the remaining time at the pace of the last steps, including pauses for checkpoints. Rollbacks
    and waits for a restart don't count. `None` if the pace is unknown."""
    recent = samples[-RECENT:]
    rises = [
        (after.step - before.step, after.timestamp - before.timestamp)
        for before, after in pairwise(recent)
        if after.step > before.step and after.timestamp > before.timestamp
    ]
    if not total or not rises:
        return None
    usual = median_low(seconds / steps for steps, seconds in rises)
    rises = [(steps, seconds) for steps, seconds in rises if seconds / steps <= LONG * usual]
    pace = sum((seconds for _, seconds in rises), timedelta(0)) / sum(steps for steps, _ in rises)
    return pace * max(0, total - recent[-1].step)
