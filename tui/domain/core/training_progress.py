"""Training progress from the trainer's structured log lines.

The trainer's format (docs/JSON.md, 'The trainer's lines') is one JSON object per line whose `"vxtui"` object
has a `kind` and fields in SI units. `tui.domain.progress` reads the lines of other trainers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median_low
from typing import Any

from tui.domain.core.figures import count, figure, finite

TOKENS, SAMPLES, STEPS = "tokens/s", "samples/s", "steps/s"
"""Units of a speed."""
MOST_NUMBERS = 24
"""Maximum number of other metrics of a step; each has a chart."""
_OWN_FIELDS = frozenset({"kind", "step", "total_steps", "loss", "tokens_per_second", "learning_rate"})


RECENT = 40
"""Number of last reported steps that determine the pace."""
LONG = 20
"""Multiple of the usual duration above which a step counts as a restart and is left out of the pace."""


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """One reported training step, a point of the plots."""

    timestamp: datetime
    step: int
    loss: float | None = None
    speed: float | None = None
    speed_unit: str = TOKENS
    total_steps: int | None = None
    learning_rate: float | None = None
    numbers: tuple[tuple[str, float], ...] = ()
    """Every other number reported with the step, with its name."""


@dataclass(frozen=True, slots=True)
class Silence:
    """A running job's silence: no training step, or no line of a replica, for much longer than usual."""

    since: datetime
    phrase: str = "no step"
    """The words before its duration."""
    replica: str = ""
    """The silent or ended replica; "" if the lines do not tell."""


@dataclass(frozen=True, slots=True)
class Straggler:
    """The replica that is slower than the others."""

    replica: str
    slower: float
    """Additional time of a step, as a fraction of the others' time."""
    replicas: int
    """Number of replicas that lose this time: all of a job in lockstep, otherwise 1."""

    @property
    def words(self) -> str:
        """`worker-1 is 38 % slower than the others`."""
        return f"{self.replica} is {self.slower * 100:.0f} % slower than the others"


@dataclass(frozen=True, slots=True)
class Progress:
    """A job's progress as the job reports it. A value that was not reported is `None`."""

    step: int | None = None
    total_steps: int | None = None
    first_loss: float | None = None
    last_loss: float | None = None
    speed: float | None = None
    last_checkpoint_step: int | None = None
    last_checkpoint_at: datetime | None = None
    phase: str | None = None
    resumed_from: int | None = None
    updated_at: datetime | None = None
    speed_unit: str = TOKENS
    learning_rate: float | None = None
    ends_at: datetime | None = None
    """Expected end of the training, by the job's own estimate."""
    problem: str | None = None
    """A problem that the trainer reports, e.g. that no step ends, or that the last checkpoint was lost."""
    dialect: str | None = None
    """Line format from which step and loss are read; `None` for structured lines."""
    pace: float | None = None
    """Seconds of one step, as the last steps took."""
    silence: Silence | None = None
    """The silence at the last read of the log."""
    straggler: Straggler | None = None
    """The slow replica at the last read of the log."""
    attempt: int | None = None
    """Number of the current attempt of a restarted job; `None` for a job without a known restart."""
    lost_steps: int | None = None
    """Number of steps that the restarts repeated."""

    @property
    def fraction(self) -> float | None:
        """The completed fraction of the steps, 0 to 1, or `None` if the total is unknown."""
        if self.step is None or not self.total_steps:
            return None
        return max(0.0, min(1.0, self.step / self.total_steps))

    @property
    def tokens_per_second(self) -> float | None:
        """The speed in tokens per second; `None` for other units."""
        return self.speed if self.speed_unit == TOKENS else None

    def left(self, now: datetime) -> timedelta | None:
        """Return the remaining time at the pace of the last steps, or else as the job reports it."""
        if self.pace is not None and self.total_steps and self.step is not None and self.updated_at:
            whole = timedelta(seconds=self.pace * max(0, self.total_steps - self.step))
            return max(timedelta(0), whole - (now - self.updated_at))
        return None if self.ends_at is None else max(timedelta(0), self.ends_at - now)


NO_PROGRESS = Progress()
"""Progress of a job that has reported nothing."""


def structured_fields(payload: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the `"vxtui"` object of a structured line, or `None` for any other line."""
    fields = (payload or {}).get("vxtui")
    return fields if isinstance(fields, Mapping) else None


def structured_kind(payload: Mapping[str, Any] | None) -> str:
    """Return the kind of a structured line, or "" for any other line."""
    kind = (structured_fields(payload) or {}).get("kind")
    return kind if isinstance(kind, str) else ""


def training_step(timestamp: datetime, payload: Mapping[str, Any] | None) -> TrainingStep | None:
    """Return the step that a structured line reports, or `None` for any other line."""
    fields = structured_fields(payload)
    if fields is None or fields.get("kind") != "step":
        return None
    step = count(fields.get("step"))
    if step is None:
        return None
    return TrainingStep(
        timestamp,
        step,
        figure(fields.get("loss")),
        finite(fields.get("tokens_per_second")),
        TOKENS,
        count(fields.get("total_steps")),
        finite(fields.get("learning_rate")),
        _other_numbers(fields),
    )


def with_evaluation(
    last: TrainingStep | None, timestamp: datetime, payload: Mapping[str, Any] | None
) -> TrainingStep | None:
    """Return the `last` step with the numbers of a later evaluation, e.g. `eval_loss`; `None` for any other
    line. An evaluation after another step is a separate step, without a loss."""
    fields = structured_fields(payload)
    step = None if fields is None or fields.get("kind") != "eval" else count(fields.get("step"))
    if fields is None or step is None:
        return None
    numbers = {f"eval_{name}": value for name, value in fields.items() if name not in {"kind", "step"}}
    sample = last if last is not None and last.step == step else TrainingStep(timestamp, step)
    return replace(sample, numbers=(*_other_numbers(numbers), *sample.numbers)[:MOST_NUMBERS])


def _other_numbers(fields: Mapping[str, Any]) -> tuple[tuple[str, float], ...]:
    numbers = []
    for name, value in fields.items():
        number = None if name in _OWN_FIELDS else finite(value)
        if number is not None:
            numbers.append((str(name), number))
    return tuple(numbers[:MOST_NUMBERS])


def advance(progress: Progress, timestamp: datetime, payload: Mapping[str, Any] | None) -> Progress:
    """Return `progress` after one more structured line; lines must be in time order."""
    fields = structured_fields(payload)
    if fields is None:
        return progress
    kind = fields.get("kind")
    if kind == "step":
        sample = training_step(timestamp, payload)
        return progress if sample is None else after_step(progress, sample)
    if kind == "checkpoint":
        step = count(fields.get("step"))
        return replace(progress, last_checkpoint_step=step, last_checkpoint_at=timestamp)
    if kind == "phase" and isinstance(fields.get("phase"), str):
        # A problem of this attempt does not apply to the next one.
        problem = None if fields["phase"] == "rendezvous" else progress.problem
        return replace(progress, phase=fields["phase"], problem=problem, updated_at=timestamp)
    if kind in ("hang", "replicas", "save_failed") and fields.get("state") != "asked":
        return replace(progress, problem=_problem(fields, payload), updated_at=timestamp)
    if kind == "eval":
        return replace(progress, updated_at=timestamp)
    if kind == "resumed":
        return replace(progress, resumed_from=count(fields.get("step")), updated_at=timestamp)
    return progress


def _problem(fields: Mapping[str, Any], payload: Mapping[str, Any] | None) -> str | None:
    """Return the sentence of a line that reports a problem; `None` if the line reports its end."""
    if fields.get("state") == "over":
        return None
    return str((payload or {}).get("message") or fields.get("cause") or fields["kind"])


def after_step(
    progress: Progress, sample: TrainingStep, ends_at: datetime | None = None, dialect: str | None = None
) -> Progress:
    """Return `progress` after a reported step, with the job's own estimate of its end. The first loss stays
    the first reported loss, even across restarts, for comparison."""
    loss, rate = sample.loss, sample.learning_rate
    return replace(
        progress,
        step=sample.step,
        total_steps=sample.total_steps or progress.total_steps,
        first_loss=progress.first_loss if progress.first_loss is not None else loss,
        last_loss=loss if loss is not None else progress.last_loss,
        speed=sample.speed or progress.speed,
        speed_unit=sample.speed_unit if sample.speed else progress.speed_unit,
        learning_rate=rate if rate is not None else progress.learning_rate,
        problem=None,
        silence=None,
        updated_at=sample.timestamp,
        ends_at=ends_at or progress.ends_at,
        dialect=dialect,
    )


def pace(samples: Collection[TrainingStep]) -> timedelta | None:
    """Return the time of one step, as the last steps took, including pauses for checkpoints. Rollbacks and
    waits for a restart don't count. `None` if it is unknown."""
    recent = list(samples)[-RECENT:]
    rises = [
        (after.step - before.step, after.timestamp - before.timestamp)
        for before, after in pairwise(recent)
        if after.step > before.step and after.timestamp > before.timestamp
    ]
    if not rises:
        return None
    usual = median_low(seconds / steps for steps, seconds in rises)
    rises = [(steps, seconds) for steps, seconds in rises if seconds / steps <= LONG * usual]
    return sum((seconds for _, seconds in rises), timedelta(0)) / sum(steps for steps, _ in rises)
