"""A guard over the loss: what is not a number and what leaps far out is not learned from."""

from __future__ import annotations

import math
import statistics
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

LEAST_SEEN = 20
"""Losses before a spike can be told from the first steps' fall."""


class Verdict(StrEnum):
    """What to do with a step."""

    KEEP = "keep"
    SKIP = "skip"
    ROLL_BACK = "roll back"


@dataclass(slots=True)
class Guard:
    """Judges each step by its loss and its gradient's norm, before the weights are changed.

    A loss or norm that is not finite, or a loss more than `spike` times the usual deviation above the recent
    median, is skipped; more than `patience` of them in a row ask for the last checkpoint. All ranks must be
    given the same figures, so that all decide the same. `spike` 0 looks only for what is not finite.
    """

    spike: float = 0.0
    patience: int = 3
    window: int = 100
    skipped: int = 0
    """In a row."""
    reason: str = ""
    _losses: deque[float] = field(default_factory=deque)

    def judge(self, loss: float, norm: float) -> Verdict:
        """What to do with a step of this loss and gradient norm; `reason` says why it is not kept."""
        self.reason = self._wrong(loss, norm)
        if not self.reason:
            self.skipped = 0
            self._losses.append(loss)
            if len(self._losses) > self.window:
                self._losses.popleft()
            return Verdict.KEEP
        self.skipped += 1
        if self.skipped > self.patience:
            self.reason += f", {self.skipped} steps in a row"
            self.skipped = 0
            return Verdict.ROLL_BACK
        return Verdict.SKIP

    def _wrong(self, loss: float, norm: float) -> str:
        if not math.isfinite(loss):
            return f"the loss is {loss}"
        if not math.isfinite(norm):
            return f"the gradient's norm is {norm}"
        if not self.spike or len(self._losses) < LEAST_SEEN:
            return ""
        usual = statistics.median(self._losses)
        # The median deviation is not moved by the spikes that it is to find.
        spread = statistics.median(abs(seen - usual) for seen in self._losses)
        limit = usual + self.spike * max(spread, 1e-3 * abs(usual), 1e-12)
        return f"the loss is {loss:.4g}, usual is {usual:.4g}" if loss > limit else ""


@dataclass(slots=True)
class EarlyStop:
    """Says when the evaluation loss has stopped falling: after `patience` evaluations without a new best."""

    patience: int
    least: float = 0.0
    """What counts as better: at least this much less."""
    best: float = math.inf
    waited: int = 0

    def stop(self, loss: float) -> bool:
        """Whether to end, after one more evaluation. A patience of 0 never ends."""
        if loss < self.best - self.least:
            self.best, self.waited = loss, 0
            return False
        self.waited += 1
        return 0 < self.patience <= self.waited

    def state(self) -> list[float] | None:
        """What to go on from later; `None` before the first evaluation."""
        return [self.best, self.waited] if math.isfinite(self.best) else None

    def resume(self, state: list[float] | None) -> None:
        """Undo `state`."""
        if state is not None:
            self.best, self.waited = state[0], int(state[1])
