"""How late the entries of a stream come: how long to wait for the last ones of a job that has ended."""

from __future__ import annotations

import math

from tui.backends.vertex.logs.convert import Receipt

CLOCK_STEP = 1.0
"""Seconds by which the service's clock gains on ours between two messages only when it is set forward."""


class Lateness:
    """`seconds` is the most that an entry came after its own time, by whole seconds.

    An entry from before a step of the service's clock seems to come late by that step. Receipts on a stream
    are compared with this machine's monotonic clock, which shows the step.
    """

    def __init__(self) -> None:
        self.seconds = 0
        self._ahead: float | None = None
        """Seconds, the most, by which a receipt was ahead of the monotonic clock."""

    def add(self, receipt: Receipt, now: float) -> None:
        """Take the receipt of a message that came at `now` (s, monotonic)."""
        late = receipt.late
        if receipt.newest is not None:
            ahead = receipt.newest.timestamp() - now
            step = ahead - (ahead if self._ahead is None else self._ahead)
            self._ahead = ahead if self._ahead is None else max(self._ahead, ahead)
            late -= math.ceil(step) if step > CLOCK_STEP else 0
        self.seconds = max(self.seconds, late)
