"""The loss guard: it skips a step whose loss or gradient is not finite, or whose loss spikes."""

from __future__ import annotations

import ctypes
import math
import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import torch

from trainer.errors import UsageError

MIN_LOSSES = 20
"""Number of losses that are needed to distinguish a spike from the decrease in the first steps."""


class GuardAction(StrEnum):
    """Decision about a step."""

    KEEP = "keep"
    SKIP = "skip"
    ROLL_BACK = "roll back"


class Diverged(UsageError):
    """Too many consecutive steps were skipped, and a rollback is impossible."""


@dataclass(slots=True)
class LossGuard:
    """Decides on each step by its loss and the norm of its gradient.

    A step is skipped if its loss or norm is not finite, or if its loss exceeds the recent median by more than
    `spike` median deviations. More than `patience` consecutive skipped steps request a rollback. All ranks
    must pass the same values, so that they make the same decision. With `spike` 0 only finiteness counts.
    """

    spike: float = 0.0
    patience: int = 3
    window: int = 100
    skipped: int = 0
    """Number of consecutive skipped steps."""
    total: int = 0
    """Number of skipped steps in the entire run."""
    reason: str = ""
    _losses: deque[float] = field(default_factory=deque)

    def limit(self) -> float:
        """Return the loss above which the next step is skipped, as a float32; infinity without a limit."""
        if not self.spike or len(self._losses) < MIN_LOSSES:
            return math.inf
        median = statistics.median(self._losses)
        # Unlike the standard deviation, the median deviation does not grow with spikes.
        deviation = statistics.median(abs(loss - median) for loss in self._losses)
        # The device compares in float32, and both comparisons must agree.
        return ctypes.c_float(median + self.spike * max(deviation, 1e-3 * abs(median), 1e-12)).value

    def check(self, loss: float, norm: float, limit: float | None = None) -> GuardAction:
        """Return the action for a step with this loss and gradient norm; `reason` explains a skipped step.
        `limit` is the result of `limit()` before the step, by default the current one."""
        self.reason = self._problem(loss, norm, self.limit() if limit is None else limit)
        if not self.reason:
            self.skipped = 0
            self._remember(loss)
            return GuardAction.KEEP
        self.skipped += 1
        self.total += 1
        if self.skipped > self.patience:
            self.reason += f", {self.skipped} steps in a row" if self.skipped > 1 else ""
            self.skipped = 0
            return GuardAction.ROLL_BACK
        return GuardAction.SKIP

    def state(self) -> dict[str, Any]:
        """Return the state for the checkpoint."""
        return {"losses": list(self._losses), "skipped": self.skipped, "total": self.total}

    def load_state(self, state: Mapping[str, Any] | None) -> None:
        """Restore a saved state; `None` resets."""
        state = state or {}
        self._losses = deque(state.get("losses", ()))
        self.skipped, self.total = state.get("skipped", 0), state.get("total", 0)

    def roll_back(self, state: Mapping[str, Any] | None) -> None:
        """Restore the losses of a saved state, but not the run's count of skipped steps."""
        total = self.total
        self.load_state(state)
        self.skipped, self.total = 0, total

    def _remember(self, loss: float) -> None:
        if self.spike:
            self._losses.append(loss)
        if len(self._losses) > self.window:
            self._losses.popleft()

    def _problem(self, loss: float, norm: float, limit: float) -> str:
        if not math.isfinite(loss):
            return f"the loss is {loss}"
        if not math.isfinite(norm):
            return f"the norm of the gradient is {norm}"
        if loss <= limit:
            return ""
        median = f" (the recent median is {statistics.median(self._losses):.4g})" if self._losses else ""
        return f"the loss is {loss:.4g}, more than {limit:.4g}{median}"


def should_keep(loss: torch.Tensor, norm: torch.Tensor | None, limit: float) -> torch.Tensor:
    """Return whether to accept a step, a scalar on the device; the guard on the host decides alike."""
    keep = torch.isfinite(loss) & (loss <= limit)
    return keep if norm is None else keep & torch.isfinite(norm)
