"""A guard over the loss: what is not a number and what leaps far out is not learned from."""

from __future__ import annotations

import ctypes
import math
import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from trainer.config import UsageError

LEAST_SEEN = 20
"""Losses before a spike can be told from the first steps' fall."""


class Verdict(StrEnum):
    """What to do with a step."""

    KEEP = "keep"
    SKIP = "skip"
    ROLL_BACK = "roll back"


class Diverged(UsageError):
    """Too many steps in a row were left out, and there is nothing to go back to."""


@dataclass(slots=True)
class Guard:
    """Judges each step by its loss and its gradient's norm.

    A loss or norm that is not finite, or a loss more than `spike` times the usual deviation above the recent
    median, is skipped; more than `patience` of them in a row ask for the last checkpoint. All ranks must be
    given the same figures, so that all decide the same. `spike` 0 looks only for what is not finite.
    """

    spike: float = 0.0
    patience: int = 3
    window: int = 100
    skipped: int = 0
    """In a row."""
    total: int = 0
    """Skipped in the whole run."""
    reason: str = ""
    _losses: deque[float] = field(default_factory=deque)

    def limit(self) -> float:
        """The loss above which the next step is not to be kept, as a float32; infinite where none is."""
        if not self.spike or len(self._losses) < LEAST_SEEN:
            return math.inf
        usual = statistics.median(self._losses)
        # The median deviation is not moved by the spikes that it is to find.
        spread = statistics.median(abs(seen - usual) for seen in self._losses)
        # The device compares in float32, and must come to the same verdict.
        return ctypes.c_float(usual + self.spike * max(spread, 1e-3 * abs(usual), 1e-12)).value

    def judge(self, loss: float, norm: float, limit: float | None = None) -> Verdict:
        """What to do with a step of this loss and gradient norm; `reason` says why it is not kept.

        `limit` is what `limit` said when the step was taken, by default what it says now.
        """
        self.reason = self._wrong(loss, norm, self.limit() if limit is None else limit)
        if not self.reason:
            self.skipped = 0
            self._see(loss)
            return Verdict.KEEP
        self.skipped += 1
        self.total += 1
        if self.skipped > self.patience:
            self.reason += f", {self.skipped} steps in a row" if self.skipped > 1 else ""
            self.skipped = 0
            return Verdict.ROLL_BACK
        return Verdict.SKIP

    def state(self) -> dict[str, Any]:
        """What to go on from later."""
        return {"losses": list(self._losses), "skipped": self.skipped, "total": self.total}

    def resume(self, state: Mapping[str, Any] | None) -> None:
        """Undo `state`; what is there of it is forgotten."""
        state = state or {}
        self._losses = deque(state.get("losses", ()))
        self.skipped, self.total = state.get("skipped", 0), state.get("total", 0)

    def go_back(self, state: Mapping[str, Any] | None) -> None:
        """To the losses of an earlier `state`; what was skipped stays counted."""
        total = self.total
        self.resume(state)
        self.skipped, self.total = 0, total

    def _see(self, loss: float) -> None:
        if self.spike:
            self._losses.append(loss)
        if len(self._losses) > self.window:
            self._losses.popleft()

    def _wrong(self, loss: float, norm: float, limit: float) -> str:
        if not math.isfinite(loss):
            return f"the loss is {loss}"
        if not math.isfinite(norm):
            return f"the gradient's norm is {norm}"
        if loss <= limit:
            return ""
        usual = f", usual is {statistics.median(self._losses):.4g}" if self._losses else ""
        return f"the loss is {loss:.4g}, more than {limit:.4g}{usual}"


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
