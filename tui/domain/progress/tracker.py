"""Joins the lines of one process into steps: a bar's count, a dict's loss, an epoch's number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import IntEnum

from tui.domain.core.figures import MOST_STEPS, count, figure
from tui.domain.core.training_progress import TOKENS, TrainingStep
from tui.domain.progress.parsing.reading import Bar, LineReading
from tui.domain.progress.pattern import DIALECT as PATTERN

SILENT = 50
"""Number of other readings after which a silent dialect is dropped."""


class Trust(IntEnum):
    """Reliability of a step count. A better count replaces it; a worse one is ignored."""

    NONE = 0
    EPOCHS = 1
    BARE = 2
    """Trust in counts without a loss."""
    FULL = 3
    """Trust in counts with a loss."""
    OWN = 4
    """Trust in counts by the job's own pattern."""


@dataclass(slots=True)
class _BarState:
    """The bar that counts the training."""

    total: int | None
    last: int = 0
    rounds: int = 0
    """Number of times that the bar ended and restarted without naming an epoch."""
    training: bool = False

    @property
    def finished(self) -> bool:
        return self.total is not None and self.last >= self.total


class Tracker:
    """The training from the lines of one process. `add` must get its readings in time order."""

    def __init__(self) -> None:
        self.step: TrainingStep | None = None
        self.dialect = ""
        self.trust = Trust.NONE
        self.generation = 0
        """Counter of corrections: it increases when earlier counts had another meaning."""
        self._silent = 0
        self._bar: _BarState | None = None
        self._first_epoch: int | None = None
        self._epoch: int | None = None
        self._epochs: int | None = None
        self._run_total: int | None = None
        """Number of steps in the entire run, reported before the run."""
        self._run_epochs: int | None = None
        self._pending: LineReading | None = None
        """A loss that came before the first step."""

    def add(self, at: datetime, reading: LineReading) -> TrainingStep | None:
        """Return the step that a reading improves, or `None`. A step that several lines report is returned
        after each line, with all its values so far."""
        if reading.bar is None and reading.step is None:
            return self._without_step(at, reading)
        before = self.step
        step, total = reading.step, reading.total
        if reading.bar is not None:
            step, total = self._of_bar(reading, reading.bar)
        if step is None or step > MOST_STEPS:
            # Epochs times steps per epoch may exceed the line's own numbers.
            return None
        if not self._trusted(reading):
            return None if before is None else self._attached(at, _beside(reading, before))
        total = count(total) or self._total_for(step)
        if before is not None and before.step == step:
            return self._keep(_merged(before, at, reading, total))
        if self._pending is not None:
            reading, self._pending = _filled(reading, self._pending), None
        return self._keep(_sample(at, step, total, reading))

    # Steps

    def _trusted(self, reading: LineReading) -> bool:
        trust = _trust(reading)
        if reading.dialect == self.dialect:
            # A dict's loss raises the trust in its bar's count.
            self.trust, self._silent = max(trust, self.trust), 0
            return True
        self._silent += 1
        if trust > self.trust or (self._silent > SILENT and trust >= Trust.BARE):
            self.generation += self.step is not None
            self.dialect, self.trust, self._silent = reading.dialect, trust, 0
            return True
        return False

    def _total_for(self, step: int) -> int | None:
        for total in (self._run_total, self._bar.total if self._bar is not None else None):
            if total is not None and step <= total:
                return total
        return None

    def _keep(self, step: TrainingStep) -> TrainingStep:
        self.step = step
        return step

    # Bars

    def _of_bar(self, reading: LineReading, bar: Bar) -> tuple[int | None, int | None]:
        """Step and total over all epochs; no step for a bar with another purpose."""
        state = self._bar
        trains = bar.training or reading.loss is not None
        if state is None or state.total != bar.total:
            if state is not None and not self._replaces(state, bar, trains):
                return None, None
            self.generation += state is not None and not state.training
            state = self._bar = _BarState(bar.total)
        elif bar.step < state.last and state.finished:
            state.rounds += 1
        state.last = bar.step
        state.training = state.training or trains
        if reading.epochs is not None and bar.epoch is not None:
            self._epochs = reading.epochs
        if bar.total is None:
            return bar.step, None
        index = self._epoch_index(bar, state)
        total = bar.total * (self._epochs if self._counts_epochs(bar) and self._epochs else index + 1)
        return index * bar.total + bar.step, max(total, (index + 1) * bar.total)

    def _counts_epochs(self, bar: Bar) -> bool:
        return bar.epoch is not None or bar.fixed

    def _replaces(self, state: _BarState, bar: Bar, trains: bool) -> bool:
        """Whether a bar of another length counts the training from now on, rather than an evaluation."""
        if bar.fixed and state.training:
            return False
        if trains != state.training:
            return trains
        return state.finished and (trains or (bar.total or 0) >= (state.total or 0))

    def _epoch_index(self, bar: Bar, state: _BarState) -> int:
        """Number of completed epochs."""
        number = bar.epoch if bar.epoch is not None else self._epoch if bar.fixed else None
        if number is None:
            return state.rounds
        if bar.first_epoch is not None and self._first_epoch is None:
            self._first_epoch = bar.first_epoch
        if number == 0:
            self._first_epoch = 0
        return max(0, number - (1 if self._first_epoch is None else self._first_epoch))

    # Lines without a step

    def _without_step(self, at: datetime, reading: LineReading) -> TrainingStep | None:
        if reading.loss is None and not reading.numbers:
            self._of_run(reading)
            return None
        if reading.loss is not None and self._bar is not None:
            # The dict belongs to this bar, so no other count is better.
            self._bar.training = True
            if self.step is not None and self.trust is Trust.BARE:
                self.trust = Trust.FULL
        step = self._step_of_epoch(reading)
        if step is not None:
            counted = replace(reading, step=step, total=self._run_total)
            return self.add(at, counted)
        if self.step is None:
            if reading.loss is not None:
                self._pending = reading
            return None
        return self._attached(at, reading)

    def _of_run(self, reading: LineReading) -> None:
        """Handle lines that state the run's length, or the epoch that begins."""
        if reading.epoch is not None:
            self._epoch, self._epochs = int(reading.epoch), reading.epochs
            self._first_epoch = 1
            return
        self._run_total = reading.total or self._run_total
        self._run_epochs = reading.epochs or self._run_epochs

    def _step_of_epoch(self, reading: LineReading) -> int | None:
        """The step from an epoch's fraction of the run, if no bar counts steps."""
        if self._bar is not None or reading.loss is None or reading.epoch is None:
            return None
        if not self._run_total or not self._run_epochs:
            return None
        return min(self._run_total, round(reading.epoch / self._run_epochs * self._run_total))

    def _attached(self, at: datetime, reading: LineReading) -> TrainingStep | None:
        assert self.step is not None
        return self._keep(_merged(self.step, at, reading, None))


def _trust(reading: LineReading) -> Trust:
    if reading.dialect == PATTERN:
        return Trust.OWN
    if reading.counts_epochs:
        return Trust.EPOCHS
    return Trust.FULL if reading.loss is not None else Trust.BARE


def _sample(at: datetime, step: int, total: int | None, reading: LineReading) -> TrainingStep:
    return TrainingStep(
        at,
        step,
        reading.loss,
        figure(reading.speed),
        reading.speed_unit or TOKENS,
        total,
        reading.learning_rate,
        reading.numbers,
    )


def _merged(old: TrainingStep, at: datetime, reading: LineReading, total: int | None) -> TrainingStep:
    """The step with the values of another line added."""
    rate = reading.learning_rate
    return TrainingStep(
        at,
        old.step,
        old.loss if reading.loss is None else reading.loss,
        old.speed if reading.speed is None else figure(reading.speed),
        old.speed_unit if reading.speed is None else reading.speed_unit,
        old.total_steps if total is None else total,
        old.learning_rate if rate is None else rate,
        tuple((dict(old.numbers) | dict(reading.numbers)).items()),
    )


def _filled(reading: LineReading, pending: LineReading) -> LineReading:
    """The reading of a step, with a loss that came before it."""
    rate = reading.learning_rate
    return replace(
        reading,
        loss=pending.loss if reading.loss is None else reading.loss,
        learning_rate=pending.learning_rate if rate is None else rate,
        numbers=tuple((dict(pending.numbers) | dict(reading.numbers)).items()),
    )


def _beside(reading: LineReading, step: TrainingStep) -> LineReading:
    """The values that a line with another count adds to a step."""
    speed = reading.speed if step.speed is None else None
    return replace(reading, loss=None, speed=speed)
