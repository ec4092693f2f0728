"""Simulated utilization and memory of accelerators. Off by default. The module uses only the standard
library.

They allow trying a screen of a thousand GPUs on a machine without any. Every simulated sample is marked, from
the runner's record to the label of the time series.
"""

from __future__ import annotations

import math
import random
import zlib

MARK = "simulated:"
"""Prefix of the accelerator's index in a simulated sample."""
LOAD_SECONDS = 20.0
"""Seconds in which an accelerator's memory fills after its first sample, before its work begins."""
PAUSE_EVERY, PAUSE = 300.0, 6.0
"""Period and length in seconds of a pause of all accelerators of a job, as for a checkpoint."""
SLOW_SHARE = 0.03
"""Fraction of the accelerators that have a lower utilization, like a throttled accelerator."""


class Accelerator:
    """A simulated accelerator. Utilization and memory fraction (0 to 1) depend on the time in seconds."""

    def __init__(self, replica: str, index: int, began: float) -> None:
        # An accelerator has the same characteristics in every attempt.
        self._random = random.Random(zlib.crc32(f"{replica}/{index}".encode()))
        slow = self._random.random() < SLOW_SHARE
        self._busy = self._random.uniform(0.35, 0.55) if slow else self._random.uniform(0.86, 0.97)
        self._held = self._random.uniform(0.70, 0.90)
        self._phase = self._random.uniform(0, 2 * math.pi)
        self._period = self._random.uniform(40, 90)
        self._began = began

    def read(self, now: float) -> tuple[float, float]:
        """Return the utilization and the fraction of the memory in use."""
        loaded = min(1.0, max(0.0, now - self._began) / LOAD_SECONDS)
        memory = 0.02 + (self._held - 0.02) * loaded
        if loaded < 1 or now % PAUSE_EVERY < PAUSE:
            return self._random.uniform(0, 0.04), memory
        wave = 0.03 * math.sin(2 * math.pi * now / self._period + self._phase)
        return min(1.0, max(0.0, self._busy + wave + self._random.gauss(0, 0.015))), memory
