"""Figures of accelerators that are not there. Off unless asked for; standard library only.

They let a screen of a thousand GPUs be tried on a machine without one. What they say is made up, which is
why every sample of theirs is marked, from the runner's record to the label of the time series.
"""

from __future__ import annotations

import math
import random
import zlib

MARK = "simulated:"
"""Before the index of the accelerator in a sample whose accelerator is none."""
LOAD_SECONDS = 20.0
"""After its first sample an accelerator's memory fills and its work begins."""
PAUSE_EVERY, PAUSE = 300.0, 6.0
"""All accelerators of a job stand still together, as they do while a checkpoint is written. In seconds."""
SLOW_SHARE = 0.03
"""Of the accelerators: these do visibly less, as one does that is throttled."""


class Accelerator:
    """One accelerator: what it would say of itself at a time in seconds, both from 0 to 1."""

    def __init__(self, replica: str, index: int, began: float) -> None:
        # The same accelerator behaves the same way in every attempt.
        self._random = random.Random(zlib.crc32(f"{replica}/{index}".encode()))
        slow = self._random.random() < SLOW_SHARE
        self._busy = self._random.uniform(0.35, 0.55) if slow else self._random.uniform(0.86, 0.97)
        self._held = self._random.uniform(0.70, 0.90)
        self._phase = self._random.uniform(0, 2 * math.pi)
        self._period = self._random.uniform(40, 90)
        self._began = began

    def read(self, now: float) -> tuple[float, float]:
        """(share of the time at work, share of the memory in use)."""
        loaded = min(1.0, max(0.0, now - self._began) / LOAD_SECONDS)
        memory = 0.02 + (self._held - 0.02) * loaded
        if loaded < 1 or now % PAUSE_EVERY < PAUSE:
            return self._random.uniform(0, 0.04), memory
        wave = 0.03 * math.sin(2 * math.pi * now / self._period + self._phase)
        return min(1.0, max(0.0, self._busy + wave + self._random.gauss(0, 0.015))), memory
