"""Early stopping: end the run when the evaluation loss no longer falls."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(slots=True)
class EarlyStopping:
    """Ends a run after `patience` consecutive evaluations without a new best loss; 0 never ends the run."""

    patience: int
    min_delta: float = 0.0
    """Decrease of the loss that counts as an improvement."""
    best: float = math.inf
    without_improvement: int = 0

    def update(self, loss: float) -> bool:
        """Add the loss of an evaluation; return whether to end the run."""
        if loss < self.best - self.min_delta:
            self.best, self.without_improvement = loss, 0
            return False
        self.without_improvement += 1
        return self.ended

    @property
    def ended(self) -> bool:
        """Whether the evaluations so far end the run."""
        return 0 < self.patience <= self.without_improvement

    def state(self) -> list[float] | None:
        """Return the state for the checkpoint, or `None` before the first evaluation."""
        return [self.best, self.without_improvement] if math.isfinite(self.best) else None

    def load_state(self, state: list[float] | None) -> None:
        """Restore a saved state."""
        if state is not None:
            self.best, self.without_improvement = state[0], int(state[1])
