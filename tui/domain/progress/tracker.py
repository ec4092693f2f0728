"""Joins the lines of one process into steps: a bar's count, a dict's loss, an epoch's number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import IntEnum

from tui.domain.core.figures import MOST_STEPS, count, figure
from tui.domain.core.training_progress import STEPS, TrainingStep
from tui.domain.progress.formats.bars import LIGHTNING, TQDM
from tui.domain.progress.formats.named_lines import BOX
from tui.domain.progress.formats.tables import row_reading
from tui.domain.progress.parsing.reading import Bar, LineReading, Part
from tui.domain.progress.pattern import DIALECT as PATTERN

SILENT = 50
"""Number of other readings after which a silent dialect is dropped."""

BLOCK = timedelta(seconds=30)
"""Maximum time between the head of a block and a value of the block."""


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
    of_epoch: bool = False

    @property
    def finished(self) -> bool:
        return self.total is not None and self.last >= self.total


@dataclass(slots=True)
class _CountState:
    """Tells counts of an epoch from counts of the run, by how they continue in the next epoch."""

    known: bool | None = None
    epoch: int | None = None
    step: int = 0
    stride: int = 0

    def of_epoch(self, bar: Bar, number: int, index: int | None, epochs: int | None) -> bool | None:
        """Return whether the step counts within the epoch; `None` while unknown."""
        ahead = bar.step - self.step
        if self.epoch is not None and number > self.epoch:
            if ahead <= 0:
                self.known = True
            elif ahead <= 2 * self.stride:
                self.known = False
        elif number == self.epoch and ahead > 0:
            self.stride = ahead
        if self.known is None and bar.total and epochs and index is not None:
            share = bar.step / bar.total * epochs
            if not index - epochs / bar.total <= share <= index + 1 + epochs / bar.total:
                self.known = True
        self.epoch, self.step = number, bar.step
        return self.known


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
        self._counts = _CountState()
        self._of_samples = False
        """Whether the bars of this program count samples."""
        self._epoch: int | None = None
        self._epochs: int | None = None
        self._bars_of_epochs: int | None = None
        """Number of epochs by a bar around the bars of each epoch."""
        self._run_total: int | None = None
        """Number of steps in the entire run, reported before the run."""
        self._run_epochs: int | None = None
        self._pending: LineReading | None = None
        """A loss that came before the first step."""
        self._head: tuple[datetime, LineReading] | None = None
        """The head of a block, whose values follow."""
        self._value: tuple[datetime, LineReading] | None = None
        """The loss of a box whose step follows."""
        self._columns: tuple[str, ...] = ()
        """The names of the columns of a table, whose rows follow."""

    def add(self, at: datetime, reading: LineReading) -> TrainingStep | None:
        """Return the step that a reading improves, or `None`. A step that several lines report is returned
        after each line, with all its values so far."""
        joined = self._joined(at, reading) if reading.part or reading.columns or reading.cells else reading
        if joined is None:
            return None
        reading = joined
        bar = reading.bar
        if bar is not None and bar.fixed and (bar.of_samples or self._of_samples):
            if bar.step != bar.total or self._epoch is None:
                return None
            reading = self._of_epoch(reading, self._epoch)
        if reading.bar is None and reading.step is None:
            return self._without_step(at, reading)
        before = self.step
        step, total = reading.step, reading.total
        if reading.bar is not None:
            step, total = self._of_bar(reading, reading.bar)
            if not _is_of_run(reading, reading.bar, step, total):
                reading.remaining = None
        if step is None and reading.loss is not None and self.step is None:
            self._pending = reading
        if step is None or step > MOST_STEPS:
            # Epochs times steps per epoch may exceed the line's own numbers.
            return None
        if reading.counts_epochs and reading.dialect == TQDM:
            self._bars_of_epochs = total
        if not self._trusted(reading):
            return None if before is None else self._attached(at, _beside(reading, before))
        total = count(total) or self._total_for(step)
        if before is not None and before.step == step:
            return self._keep(_merged(before, at, reading, total))
        if self._pending is not None:
            reading, self._pending = _filled(reading, self._pending), None
        return self._keep(_merged(TrainingStep(at, step), at, reading, total))

    def _joined(self, at: datetime, reading: LineReading) -> LineReading | None:
        """Return the reading of a block's value or of a table's row with its step; `None` for heads and
        headers."""
        if reading.columns:
            self._columns = reading.columns
        if reading.cells:
            return row_reading(self._columns, reading.cells)
        if reading.part is Part.HEAD:
            self._head = at, reading
        if reading.part is Part.FOOT:
            value, self._value = self._value, None
            if value is None or at - value[0] > BLOCK:
                return None
            return _filled(replace(reading, part=None), value[1])
        if reading.part is not Part.VALUE or self._head is None or at - self._head[0] > BLOCK:
            if reading.part is Part.VALUE and reading.dialect == BOX:
                self._value = at, reading
            return None
        head = replace(self._head[1], part=None, speed=reading.speed, speed_unit=reading.speed_unit)
        if reading.loss is None and (self.step is None or self.step.step != head.step):
            # A speed alone does not make a step of a head.
            return None
        return _filled(head, reading)

    def _of_epoch(self, reading: LineReading, epoch: int) -> LineReading:
        """Return the end of an epoch whose bar counts samples; drop the steps that were read from it."""
        if not self._of_samples:
            self._of_samples = True
            self.generation += self.step is not None
            self.step, self.trust, self._bar = None, Trust.NONE, None
        return replace(reading, bar=None, step=epoch, total=self._epochs, counts_epochs=True)

    # Steps

    def _trusted(self, reading: LineReading) -> bool:
        trust = _trust(reading)
        if reading.dialect == self.dialect and (trust is Trust.EPOCHS) == (self.trust is Trust.EPOCHS):
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
        bar = self._bar
        for total in (self._run_total, None if bar is None or bar.of_epoch else bar.total):
            if total is not None and step <= total:
                return total
        return None

    def _keep(self, step: TrainingStep) -> TrainingStep:
        self.step = step
        return step

    # Bars

    def _of_bar(self, reading: LineReading, bar: Bar) -> tuple[int | None, int | None]:
        """Return step and total over all epochs; no step for a bar with another purpose."""
        state = self._bar
        trains = bar.training or reading.loss is not None
        if bar.total is None and trains and state is not None and bar.step >= (state.total or bar.step + 1):
            # A bar of tqdm beyond its end has no total.
            bar = replace(bar, total=state.total)
        if state is None or state.total != bar.total:
            if state is not None and not self._replaces(state, bar, trains):
                return None, None
            self.generation += state is not None and not state.training
            state = self._bar = _BarState(bar.total)
        elif bar.step < state.last and state.finished:
            state.rounds += 1
        state.last = bar.step
        state.training = state.training or trains
        if reading.epochs is not None:
            self._epochs = reading.epochs
        number = self._epoch if bar.fixed else bar.epoch
        state.of_epoch = number is not None or self._bars_of_epochs is not None or state.rounds > 0
        if number is None:
            if bar.total is None or not state.rounds:
                return bar.step, None if self._bars_of_epochs else bar.total
            total = bar.total * self._bars_of_epochs if self._bars_of_epochs else None
            return state.rounds * bar.total + bar.step, total
        index = self._epoch_index(bar, number)
        epochs = self._epochs
        if 0 in {self._first_epoch, bar.first_epoch} and reading.dialect != LIGHTNING and (epochs or 0) % 10:
            # `Epoch 0/9`: 9 may be the number of epochs or the last epoch.
            epochs = None
        of_epoch = True if bar.fixed or epochs == 1 else bar.of_epoch
        if of_epoch is None:
            of_epoch = self._counts.of_epoch(bar, number, index, epochs)
        if of_epoch is False:
            return bar.step, bar.total
        total = bar.total * epochs if of_epoch and bar.total and epochs else None
        if index == 0:
            return bar.step, total
        if of_epoch is None or index is None or bar.total is None:
            # An earlier step would be mistaken for the current one.
            self.step = None
            return None, None
        return index * bar.total + bar.step, total

    def _replaces(self, state: _BarState, bar: Bar, trains: bool) -> bool:
        """Return whether a bar of another length counts training steps from now on, not an evaluation."""
        if bar.fixed and state.training:
            return False
        if trains != state.training:
            return trains
        return state.finished and (trains or (bar.total or 0) >= (state.total or 0))

    def _epoch_index(self, bar: Bar, number: int) -> int | None:
        """Return the number of completed epochs; `None` if the first epoch may have been 0 or 1."""
        if bar.first_epoch is not None:
            return max(0, number - bar.first_epoch)
        # `Epoch 3/9` may count from 0, and end with 9.
        from_one = number == 1 or (self._epochs is not None and self._epochs % 10 != 9)
        if number == 0 or (self._first_epoch is None and from_one):
            self._first_epoch = min(number, 1)
        return None if self._first_epoch is None else max(0, number - self._first_epoch)

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
        """Return the step from an epoch's fraction of the run, if no bar counts steps."""
        if self._bar is not None or reading.loss is None or reading.epoch is None:
            return None
        if not self._run_total or not self._run_epochs:
            return None
        return min(self._run_total, round(reading.epoch / self._run_epochs * self._run_total))

    def _attached(self, at: datetime, reading: LineReading) -> TrainingStep | None:
        assert self.step is not None
        return self._keep(_merged(self.step, at, reading, None))


def _is_of_run(reading: LineReading, bar: Bar, step: int | None, total: int | None) -> bool:
    """Return whether the line's remaining time is that of the run rather than of an epoch."""
    left = None if bar.total is None else bar.total - bar.step
    if (bar.epoch is None and not bar.fixed) or left is None or reading.remaining is None:
        return True
    if step is not None and total is not None and total - step == left:
        return True
    pace = reading.speed if reading.speed_unit == STEPS else None
    return not bar.fixed and pace is not None and reading.remaining.total_seconds() > 2 * left / pace


def _trust(reading: LineReading) -> Trust:
    if reading.dialect == PATTERN:
        return Trust.OWN
    if reading.counts_epochs:
        return Trust.EPOCHS
    return Trust.FULL if reading.loss is not None else Trust.BARE


def _merged(old: TrainingStep, at: datetime, reading: LineReading, total: int | None) -> TrainingStep:
    """Return the step with the values of another line added."""
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
    """Return the reading of a step, with a loss that came before it."""
    rate = reading.learning_rate
    return replace(
        reading,
        loss=pending.loss if reading.loss is None else reading.loss,
        learning_rate=pending.learning_rate if rate is None else rate,
        numbers=tuple((dict(pending.numbers) | dict(reading.numbers)).items()),
    )


def _beside(reading: LineReading, step: TrainingStep) -> LineReading:
    """Return the values that a line with another count adds to a step."""
    speed = reading.speed if step.speed is None else None
    return replace(reading, loss=None, speed=speed)
