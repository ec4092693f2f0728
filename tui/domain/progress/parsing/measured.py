"""Interprets names and numbers of any line format: a table of names gives their meanings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tui.domain.core.figures import count, figure
from tui.domain.core.training_progress import MOST_NUMBERS, SAMPLES, STEPS, TOKENS
from tui.domain.progress.parsing.names import (
    EPOCH_STEPS,
    LOSS_NAMES,
    RUN_STEPS,
    STEP_NAMES,
    Meaning,
    counted_unit,
    is_validation,
    meaning,
    unit_seconds,
)
from tui.domain.progress.parsing.numbered import Named
from tui.domain.progress.parsing.reading import Bar, LineReading, number

_SPEEDS = (TOKENS, SAMPLES, STEPS)
"""Units of a speed, the preferred unit first."""
_LONGEST_NUMBER = 24
_UNKNOWN = frozenset({Meaning.OTHER, Meaning.NOTHING})
_COUNTED = frozenset({"", "%", "batches"})
_COUNTS = frozenset({Meaning.STEP, Meaning.EPOCH, Meaning.TRAIN})
"""Meanings of a count that a number after `/` may complete."""


@dataclass(slots=True)
class Measured:
    """Numbers of one line by their meaning. If two numbers have one meaning, the number with the better name
    counts."""

    steps: dict[str, int] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)
    """Totals by the name of their step; "" for a total with a name of its own."""
    losses: dict[str, float] = field(default_factory=dict)
    speeds: dict[str, float] = field(default_factory=dict)
    learning_rate: float | None = None
    step_seconds: float | None = None
    epoch: float | None = None
    epochs: int | None = None
    rank: int = 0
    numbers: dict[str, float] = field(default_factory=dict)
    first: int | None = None
    """Position of the first number that is a step, an epoch or a loss."""
    loss_at: int = 0
    """Position of the first loss."""
    position: tuple[int, int] | None = None
    """Count and total without a name, such as `[39/678]`."""
    count: int = 0
    """Number of numbers in the line."""
    _times: dict[Meaning, float] = field(default_factory=dict)
    _trained: int | None = None
    """A count named `Train`."""

    def add_all(self, numbers: Iterable[Named]) -> Measured:
        """Add the numbers of a text."""
        last, lead, paired = Meaning.NOTHING, None, False
        for named in numbers:
            self.count += 1
            if named.of:
                if named.name:
                    self._add_total(last, meaning(named.name)[1], named.value)
                elif lead is not None:
                    self._add_position(lead, named.value)
                paired = lead is not None
                continue
            lead = None
            if named.adjacent and named.unit in _COUNTED:
                # A position in an epoch follows the epoch; any other starts the message.
                if named.leads or paired or last in {Meaning.EPOCH, Meaning.TRAIN}:
                    lead = named
                paired = False
                continue
            paired = False
            last = self.add(named.name or named.unit, named.value, named.unit, explicit=named.explicit)
            if not self.loss_at and last is Meaning.LOSS:
                self.loss_at = named.start
            if self.first is None and (last in _COUNTS or last is Meaning.LOSS):
                self.first = named.start
        return self

    def _add_position(self, lead: Named, total: float) -> None:
        step, of = count(lead.value), count(total)
        if step is None or not of or step > of or (self.position is not None and self.epoch is not None):
            return
        if self.position is not None:
            # `[0/25][100/1583]`: the epoch is the first pair.
            self.epoch, self.epochs = self.position
        self.position = (step, of)
        self.first = lead.start if self.first is None else self.first

    def add_fields(self, fields: Mapping[str, float]) -> Measured:
        """Add numbers by name."""
        for name, value in fields.items():
            if figure(value) is not None:
                self.add(name, value, "", explicit=True)
        return self

    def add(self, name: str, value: float, unit: str, *, explicit: bool) -> Meaning:
        """Add a number; return its meaning."""
        meant, of = meaning(name)
        if meant in _UNKNOWN and "/" in unit:
            meant, of = self._by_unit(unit) or (meant, of)
        match meant:
            case Meaning.STEP:
                step = count(value)
                if step is not None:
                    self.steps.setdefault(of, step)
            case Meaning.TOTAL:
                self._add_total(Meaning.STEP, "", value)
            case Meaning.LOSS:
                self.losses.setdefault(of, value)
            case Meaning.LEARNING_RATE:
                self.learning_rate = value if self.learning_rate is None else self.learning_rate
            case Meaning.SPEED | Meaning.STEP_TIME | Meaning.TIME | Meaning.DATA_TIME:
                self._add_pace(meant, value, unit, of)
            case Meaning.EPOCH | Meaning.EPOCHS | Meaning.RANK:
                self._add_place(meant, value)
            case Meaning.TRAIN:
                self._trained = count(value)
            case Meaning.OTHER if explicit:
                self._add_number(name, value)
        return meant

    def _by_unit(self, unit: str) -> tuple[Meaning, str] | None:
        """Return the meaning of a number with a unit of a rate: `500 samples/s`, `1.6 sec/step`."""
        if unit == "/s" and (self.step_seconds is not None or Meaning.TIME in self._times):
            # timm: `0.512s, 500.0/s`.
            return Meaning.SPEED, SAMPLES
        if counted := counted_unit(unit.partition("/")[0]):
            return Meaning.SPEED, counted
        return (Meaning.STEP_TIME, "") if "s/" in unit else None

    def _add_pace(self, meant: Meaning, value: float, unit: str, of: str) -> None:
        """Record a speed or a time."""
        if meant is Meaning.SPEED:
            if math.isfinite(value) and value > 0:
                self.speeds[of] = value
        elif meant is Meaning.STEP_TIME or (meant is Meaning.TIME and unit in {"ms", "us"}):
            self._add_step_time(value, unit.partition("/")[0] or (of if unit_seconds(of) else "s"))
        else:
            self._times.setdefault(meant, value)

    def _add_place(self, meant: Meaning, value: float) -> None:
        """Record an epoch, the number of epochs, or the rank of the process."""
        if meant is Meaning.EPOCH:
            self.epoch = value if math.isfinite(value) and value >= 0 else None
        elif meant is Meaning.EPOCHS:
            self.epochs = count(value) or None
        else:
            self.rank = count(value) or 0

    def _add_total(self, of: Meaning, name: str, value: float) -> None:
        total = count(value)
        if not total:
            return
        if of in {Meaning.EPOCH, Meaning.TRAIN}:
            self.epochs = total
        elif of is Meaning.STEP:
            self.totals.setdefault(name, total)

    def _add_step_time(self, value: float, unit: str) -> None:
        scale = unit_seconds(unit)
        if scale is not None and math.isfinite(value) and value > 0:
            self.step_seconds = value * scale

    def _add_number(self, name: str, value: float) -> None:
        if math.isfinite(value) and len(self.numbers) < MOST_NUMBERS:
            self.numbers.setdefault(name.strip(), value)

    @property
    def step_name(self) -> str:
        """The name of the best count of steps."""
        if len(self.steps) > 1:
            return next(name for name in STEP_NAMES if name in self.steps)
        return next(iter(self.steps), "")

    @property
    def step(self) -> int | None:
        """The best count of steps."""
        return self.steps.get(self.step_name)

    @property
    def bar(self) -> Bar | None:
        """Return the position in an epoch, or in a run if the line does not say which."""
        name, epoch = self.step_name, count(self.epoch)
        if name in RUN_STEPS or len(set(self.steps.values())) > 1:
            return None
        if self.position is not None and not name:
            return Bar(*self.position, epoch=self._trained if epoch is None else epoch, of_epoch=True)
        if epoch is None or not name or (self.position is not None and name not in EPOCH_STEPS):
            # Beside a position in the epoch, a count with a name is that of the run.
            return None
        of_epoch = True if name in EPOCH_STEPS else None
        return Bar(self.steps[name], self.totals.get(name), epoch=epoch, of_epoch=of_epoch)

    @property
    def loss(self) -> float | None:
        """The best training loss."""
        return self.losses.get(self.loss_name)

    @property
    def loss_name(self) -> str:
        """The name of the best training loss."""
        if len(self.losses) > 1:
            return next((name for name in LOSS_NAMES if name in self.losses), min(self.losses, key=len))
        return next(iter(self.losses), "")

    @property
    def speed(self) -> tuple[float | None, str]:
        """The best speed and its unit."""
        for unit in _SPEEDS:
            if unit in self.speeds:
                return self.speeds[unit], unit
        seconds = None if "forward_time" in self.numbers else self.step_seconds
        if seconds is None and Meaning.DATA_TIME in self._times:
            seconds = self._times.get(Meaning.TIME)
        speed = figure(1 / seconds) if seconds and seconds > 0 else None
        return (speed, STEPS) if speed is not None else (None, "")

    @property
    def validates(self) -> bool:
        """Whether the line has a validation's results and no training loss."""
        return not self.losses and any(is_validation(name) for name in self.numbers)

    def reading(self, dialect: str) -> LineReading:
        """Return the reading without a step, which depends on the dialect."""
        speed, unit = self.speed
        best = self.loss_name
        more = {name: v for name, v in self.losses.items() if name != best and math.isfinite(v)}
        return LineReading(
            dialect,
            epoch=self.epoch,
            epochs=self.epochs,
            loss=self.loss,
            speed=speed,
            speed_unit=unit,
            learning_rate=self.learning_rate,
            rank=self.rank,
            numbers=tuple((self.numbers | more).items()),
        )

    def results(self, dialect: str) -> LineReading:
        """Return the reading of the other numbers: results of a validation, at the current training step."""
        return LineReading(dialect, rank=self.rank, numbers=tuple(self.numbers.items()))

    def total(self, step: int) -> int | None:
        """Return the total of the step: its own, a named total, or the total of an equal count."""
        names = (self.step_name, "", *(name for name, value in self.steps.items() if value == step))
        return next((self.totals[name] for name in names if self.totals.get(name, -1) >= step), None)


def numbers_in(fields: Mapping[Any, Any]) -> dict[str, float]:
    """Return the numbers of a mapping by name, including numbers written as text."""
    numbers: dict[str, float] = {}
    for name, value in fields.items():
        if isinstance(value, bool) or not isinstance(name, str):
            continue
        if isinstance(value, int | float):
            try:
                numbers[name] = float(value)
            except OverflowError:
                continue
        elif isinstance(value, str) and len(value) <= _LONGEST_NUMBER:
            known = number(value)
            if known is not None:
                numbers[name] = known
    return numbers
