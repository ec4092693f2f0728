"""Training progress lifted from log lines.

The contract with the trainer (DESIGN.md, Contracts): one JSON object a line whose `"vxtui"` object has a
`kind` and fields in SI units. The kinds and their fields are in `docs/JSON.md`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """One reported training step: what the plots draw."""

    timestamp: datetime
    step: int
    loss: float | None = None
    tokens_per_second: float | None = None
    total_steps: int | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job has come, from its own words. Everything is `None` until it has been said."""

    step: int | None = None
    total_steps: int | None = None
    first_loss: float | None = None
    last_loss: float | None = None
    tokens_per_second: float | None = None
    last_checkpoint_step: int | None = None
    last_checkpoint_at: datetime | None = None
    phase: str | None = None
    resumed_from: int | None = None
    updated_at: datetime | None = None

    @property
    def fraction(self) -> float | None:
        """0..1, or `None` when the length is not known."""
        if self.step is None or not self.total_steps:
            return None
        return max(0.0, min(1.0, self.step / self.total_steps))


NO_PROGRESS = Progress()
"""Of a job that has said nothing."""


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _integer(value: object) -> int | None:
    number = _number(value)
    return None if number is None or not math.isfinite(number) else int(number)


def training_step(timestamp: datetime, payload: Mapping[str, Any] | None) -> TrainingStep | None:
    """The step that a structured line reports, or `None` for any other line."""
    fields = (payload or {}).get("vxtui")
    if not isinstance(fields, Mapping) or fields.get("kind") != "step":
        return None
    step = _integer(fields.get("step"))
    if step is None:
        return None
    return TrainingStep(
        timestamp,
        step,
        _number(fields.get("loss")),
        _number(fields.get("tokens_per_second")),
        _integer(fields.get("total_steps")),
    )


def advance(progress: Progress, timestamp: datetime, payload: Mapping[str, Any] | None) -> Progress:
    """`progress` after one more structured line; lines must come in time order.

    The first loss is the first ever reported, also over restarts: it is what a person compares with.
    """
    fields = (payload or {}).get("vxtui")
    if not isinstance(fields, Mapping):
        return progress
    kind = fields.get("kind")
    if kind == "step":
        sample = training_step(timestamp, payload)
        if sample is None:
            return progress
        loss = sample.loss
        return replace(
            progress,
            step=sample.step,
            total_steps=sample.total_steps or progress.total_steps,
            first_loss=progress.first_loss if progress.first_loss is not None else loss,
            last_loss=loss if loss is not None else progress.last_loss,
            tokens_per_second=sample.tokens_per_second or progress.tokens_per_second,
            updated_at=timestamp,
        )
    if kind == "checkpoint":
        step = _integer(fields.get("step"))
        return replace(progress, last_checkpoint_step=step, last_checkpoint_at=timestamp)
    if kind == "phase" and isinstance(fields.get("phase"), str):
        return replace(progress, phase=fields["phase"], updated_at=timestamp)
    if kind == "resumed":
        return replace(progress, resumed_from=_integer(fields.get("step")), updated_at=timestamp)
    return progress
