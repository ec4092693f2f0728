"""Runs full garbage collections while the user is idle, because each stops the console for 30 to 150 ms.

Python starts a full collection depending on allocations, so most would run while a key opens a screen. Young
objects are collected as usual, which takes a few ms.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

TURN = 1.0
"""Seconds between checks of whether a collection is due."""
QUIET = 1.0
"""Seconds without a key before a full collection."""
FEW = 10
"""Minimum number of middle-generation collections between two full collections, as in Python."""
MANY = 50
"""Collections of the middle generation after which a full collection runs even while keys are pressed."""
LAST_RESORT = 500
"""Collections of the middle generation after which Python runs a full collection on its own."""
GROWTH = 1.25
"""Growth factor of the old objects before the next full collection."""


class IdleCollector:
    """Delays full collections until the user is idle. `turn` runs them; `start` and `stop` switch the
    delay."""

    def __init__(self, quiet_for: Callable[[], float]) -> None:
        """Set the idle clock. `quiet_for` returns the seconds since the last key, 0 during a key."""
        self._quiet_for = quiet_for
        self._before: tuple[int, int, int] | None = None
        self._left = 0

    @property
    def started(self) -> bool:
        """Whether the collector was started and not stopped."""
        return self._before is not None

    def start(self) -> None:
        """Treat all existing objects as permanent, because the start creates no garbage."""
        gc.freeze()
        if self._before is None:
            self._before = gc.get_threshold()
        young, middle, _ = self._before
        gc.set_threshold(young, middle, LAST_RESORT)
        gc.enable()

    def stop(self) -> None:
        """Restore Python's own collections."""
        if self._before is not None:
            gc.set_threshold(*self._before)
            self._before = None

    def turn(self) -> bool:
        """Collect if it is worthwhile and the user is idle. Return whether a collection ran."""
        waiting, quiet = gc.get_count()[2], self._quiet_for()
        if not self.started or waiting < FEW or not quiet or (quiet < QUIET and waiting < MANY):
            return False
        if len(gc.get_objects(generation=2)) < GROWTH * self._left:
            return False
        gc.collect()
        self._left = len(gc.get_objects(generation=2))
        return True
