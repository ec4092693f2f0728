"""The parsed content of one progress line, and parsers of its numbers and durations."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum

from tui.domain.core.figures import figure

_DURATION = re.compile(
    r"(?:(?P<days>\d{1,4}) days?, ?)?(?:(?P<hours>\d{1,6}):)?(?P<minutes>\d{1,2}):(?P<seconds>\d{2})"
)
_SECONDS = re.compile(
    r"(?:(?P<days>\d{1,4})d ?)?(?:(?P<hours>\d{1,6})h ?)?(?:(?P<minutes>\d{1,6})m(?:in)? ?)?"
    r"(?:(?P<seconds>\d{1,9}(?:\.\d{1,6})?)s)?"
)
_SCALES = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_LONGEST = timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class Bar:
    """The position of a progress bar, within an epoch if the bar names an epoch."""

    step: int
    total: int | None = None
    epoch: int | None = None
    first_epoch: int | None = None
    """Number of the first epoch; `None` if the bar does not show whether it is 0 or 1."""
    training: bool = True
    """Whether the bar identifies itself as the training's bar; another bar may count an evaluation."""
    of_epoch: bool | None = None
    """Whether the bar counts an epoch rather than the run; `None` if the line shows neither."""
    fixed: bool = False
    """Whether every epoch has the same total; then a bar with another total does not count the training."""
    of_samples: bool = False
    """Whether the bar counts samples rather than steps."""


class Part(Enum):
    """A line of a block that reports one step."""

    HEAD = "head"
    """The line with the step alone: a step only if the block has a loss or a speed."""
    VALUE = "value"
    """A line with a loss or a speed alone."""
    FOOT = "foot"
    """A row of a box with the step, below the loss."""


@dataclass(slots=True)
class LineReading:
    """The content of one line; `None` for missing values. Only its creator sets the fields. A line has a
    `step`, a `bar` or neither: the loss in a dict belongs to the step of a bar next to it."""

    dialect: str
    step: int | None = None
    total: int | None = None
    bar: Bar | None = None
    epoch: float | None = None
    epochs: int | None = None
    counts_epochs: bool = False
    """Whether `step` and `total` are epochs, because the line has no better count."""
    part: Part | None = None
    """The part of a block of several lines that this line is."""
    loss: float | None = None
    speed: float | None = None
    speed_unit: str = ""
    learning_rate: float | None = None
    remaining: timedelta | None = None
    rank: int = 0
    """Rank of the process that wrote the line, if the line has it."""
    numbers: tuple[tuple[str, float], ...] = field(default=())
    columns: tuple[str, ...] = ()
    """The names of a table's columns, in the header."""
    cells: tuple[str, ...] = ()
    """The cells of a table's row, whose names are those of the columns."""


def number(text: str) -> float | None:
    """Return the number in a text such as `1,234`, `6.9E+00`, `41.8k` or `nan`; `None` for other text, or a
    number out of range."""
    try:
        return figure(float(text))
    except ValueError:
        text = text.strip().replace(",", "")
    scale = _SCALES.get(text[-1:], 1.0)
    try:
        return figure(float(text[:-1] if scale != 1.0 else text) * scale)
    except ValueError:
        return None


def duration(text: str) -> timedelta | None:
    """Return the duration in `16:20`, `1:02:03`, `2 days, 1:02:03`, `45s`, `2h 5m 59s`; `None` for other
    texts."""
    text = text.strip()
    match = _DURATION.fullmatch(text) or _SECONDS.fullmatch(text)
    if match is None or not any(match.groups()):
        return None
    span = timedelta(**{name: float(value) for name, value in match.groupdict(default="0").items()})
    return span if span <= _LONGEST else None
