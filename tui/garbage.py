"""Full garbage collections while nobody presses a key: one stops the console for 30 to 150 ms.

Python starts a full collection by what has been allocated, so most of them would come while a key opens a
screen. Young objects are collected as ever, which takes a few ms.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

TURN = 1.0
"""Seconds between two looks at what there is to collect."""
QUIET = 1.0
"""Seconds without a key before a full collection."""
FEW = 10
"""Collections of the middle generation at least between two full ones, as Python's default."""
MANY = 50
"""Collections of the middle generation after which a full one comes between two keys, quiet or not."""
LAST_RESORT = 500
"""Collections of the middle generation after which Python makes a full one by itself."""
GROWTH = 1.25
"""A full collection waits until there are so many times the old objects that the last one left."""


class IdleCollector:
    """Between `start` and `stop` full collections wait for a quiet moment; `turn` makes them."""

    def __init__(self, quiet_for: Callable[[], float]) -> None:
        """`quiet_for` gives the seconds since the last key, and 0 while one is being handled."""
        self._quiet_for = quiet_for
        self._before: tuple[int, int, int] | None = None
        self._left = 0

    @property
    def started(self) -> bool:
        """`start` has been called, and `stop` has not."""
        return self._before is not None

    def start(self) -> None:
        """Take what exists for permanent: nothing that a start makes is garbage."""
        gc.freeze()
        if self._before is None:
            self._before = gc.get_threshold()
        young, middle, _ = self._before
        gc.set_threshold(young, middle, LAST_RESORT)
        gc.enable()

    def stop(self) -> None:
        """Leave the collections to Python again."""
        if self._before is not None:
            gc.set_threshold(*self._before)
            self._before = None

    def turn(self) -> bool:
        """Collect if it is worth it and nobody presses a key; whether it did."""
        waiting, quiet = gc.get_count()[2], self._quiet_for()
        if not self.started or waiting < FEW or not quiet or (quiet < QUIET and waiting < MANY):
            return False
        if len(gc.get_objects(generation=2)) < GROWTH * self._left:
            return False
        gc.collect()
        self._left = len(gc.get_objects(generation=2))
        return True
