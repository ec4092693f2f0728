"""The progress of a run: the counters of its loop, and the state that a checkpoint saves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class TrainState:
    """Progress of a run. Steps and positions are 0 before the first step."""

    step: int = 0
    """Completed steps."""
    position: int = 0
    """Samples of the training data that the completed steps used."""
    first_loss: float | None = None
    last_loss: float = math.nan
    step_seconds: float = 0.0
    """Duration of the last step."""
    begun: tuple[int, int] | None = None
    """Number and position of the step in progress, or of the last step; `None` before training."""

    def begin_step(self) -> None:
        self.begun = (self.step + 1, self.position)

    def end_step(self, samples: int) -> None:
        self.step += 1
        self.position += samples

    def record_loss(self, loss: float) -> None:
        self.last_loss = loss
        if self.first_loss is None:
            self.first_loss = loss

    def state(self) -> dict[str, Any]:
        """Return the state for the checkpoint; the manifest has the step."""
        return {
            "position": self.position,
            "first_loss": self.first_loss,
            "last_loss": self.last_loss if math.isfinite(self.last_loss) else None,
        }

    def load_state(self, step: int, saved: Mapping[str, Any]) -> None:
        """Restore step and losses; the position stays, because a rollback continues with the next batches."""
        self.step = step
        self.first_loss = saved["first_loss"]
        self.last_loss = math.nan if saved["last_loss"] is None else saved["last_loss"]
