"""Interprets names and numbers of any line format: a table of names gives their meanings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tui.domain.core.figures import count, figure
from tui.domain.core.training_progress import MOST_NUMBERS, SAMPLES, STEPS, TOKENS
from tui.domain.progress.parsing.names import (
    LOSS_NAMES,
    STEP_NAMES,
    Meaning,
    is_validation,
    meaning,
    plain_name,
    unit_seconds,
)
from tui.domain.progress.parsing.numbered import Named
from tui.domain.progress.parsing.reading import LineReading, number

_SPEEDS = (TOKENS, SAMPLES, STEPS)
"""Units of a speed, the preferred unit first."""
_LONGEST_NUMBER = 24


@dataclass(slots=True)
class Measured:
    """Numbers of one line by their meaning. Of two numbers with one meaning the better name counts."""

    steps: dict[str, int] = field(default_factory=dict)
    totals: list[int] = field(default_factory=list)
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

    def add_all(self, numbers: Iterable[Named]) -> Measured:
        """Add the numbers of a text."""
        last = Meaning.NOTHING
        for named in numbers:
            if named.of:
                self._add_total(last, named.value)
                continue
            last = self.add(named.name or named.unit, named.value, named.unit, explicit=named.explicit)
            if self.first is None and last in {Meaning.STEP, Meaning.EPOCH, Meaning.LOSS}:
                self.first = named.start
        return self

    def add_fields(self, fields: Mapping[str, float]) -> Measured:
        """Add numbers by name."""
        for name, value in fields.items():
            self.add(name, value, "", explicit=True)
        return self

    def add(self, name: str, value: float, unit: str, *, explicit: bool) -> Meaning:
        """Add a number, unless it is out of range; return its meaning."""
        meant, of = meaning(name)
        if figure(value) is None:
            return meant
        plain = plain_name(name).replace("/", "_")
        if plain == "time" and unit in {"ms", "us"}:
            meant = Meaning.STEP_TIME
        match meant:
            case Meaning.STEP:
                step = count(value)
                if step is not None:
                    self.steps.setdefault(plain, step)
            case Meaning.TOTAL:
                self._add_total(Meaning.STEP, value)
            case Meaning.LOSS:
                self.losses.setdefault(plain, value)
            case Meaning.SPEED:
                if math.isfinite(value) and value > 0:
                    self.speeds[of] = value
            case Meaning.LEARNING_RATE:
                self.learning_rate = value if self.learning_rate is None else self.learning_rate
            case Meaning.STEP_TIME:
                self._add_step_time(value, unit or of or "s")
            case Meaning.EPOCH | Meaning.EPOCHS | Meaning.RANK:
                self._add_place(meant, value)
            case Meaning.OTHER if explicit:
                self._add_number(name, value)
        return meant

    def _add_place(self, meant: Meaning, value: float) -> None:
        """Record an epoch, the number of epochs, or the rank of the process."""
        if meant is Meaning.EPOCH:
            self.epoch = value if math.isfinite(value) and value >= 0 else None
        elif meant is Meaning.EPOCHS:
            self.epochs = count(value) or None
        else:
            self.rank = count(value) or 0

    def _add_total(self, of: Meaning, value: float) -> None:
        total = count(value)
        if not total:
            return
        if of is Meaning.EPOCH:
            self.epochs = total
        elif of is Meaning.STEP:
            self.totals.append(total)

    def _add_step_time(self, value: float, unit: str) -> None:
        scale = unit_seconds(unit)
        if scale is not None and math.isfinite(value) and value > 0:
            self.step_seconds = value * scale

    def _add_number(self, name: str, value: float) -> None:
        if math.isfinite(value) and len(self.numbers) < MOST_NUMBERS:
            self.numbers.setdefault(name.strip(), value)

    @property
    def step(self) -> int | None:
        """The best count of steps."""
        return next((self.steps[name] for name in STEP_NAMES if name in self.steps), None)

    @property
    def loss(self) -> float | None:
        """The best training loss."""
        return next((self.losses[name] for name in LOSS_NAMES if name in self.losses), None)

    @property
    def speed(self) -> tuple[float | None, str]:
        """The best speed and its unit."""
        for unit in _SPEEDS:
            if unit in self.speeds:
                return self.speeds[unit], unit
        speed = figure(1 / self.step_seconds) if self.step_seconds else None
        return (speed, STEPS) if speed is not None else (None, "")

    @property
    def validates(self) -> bool:
        """Whether the line has a validation's results and no training loss."""
        return not self.losses and any(is_validation(name) for name in self.numbers)

    def reading(self, dialect: str) -> LineReading:
        """The reading without a step, which depends on the dialect."""
        speed, unit = self.speed
        best = next((name for name in LOSS_NAMES if name in self.losses), "")
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
        """The reading of the other numbers: a validation's results, at the current training step."""
        return LineReading(dialect, rank=self.rank, numbers=tuple(self.numbers.items()))

    def total(self, step: int) -> int | None:
        """The first total that is at least `step`."""
        return next((total for total in self.totals if total >= step), None)


def numbers_in(fields: Mapping[Any, Any]) -> dict[str, float]:
    """The numbers of a mapping by name, including numbers written as text."""
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
