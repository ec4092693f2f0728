"""Check whether the run is over, for a node that connects after its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

PERIOD = 10.0
"""Seconds between checks."""


class RunEnd:
    """Calls `is_done` in a thread, because the checkpoint store may not answer."""

    def __init__(self, is_done: Callable[[], bool]) -> None:
        self._is_done = is_done
        self._thread: threading.Thread | None = None
        self._next = 0.0
        self._over = False

    def is_over(self) -> bool:
        """Return whether the run is known to be over; start the next check when it is due."""
        idle = self._thread is None or not self._thread.is_alive()
        if idle and not self._over and time.monotonic() >= self._next:
            self._next = time.monotonic() + PERIOD
            self._thread = threading.Thread(target=self._ask, name="check the last step", daemon=True)
            self._thread.start()
        return self._over

    def _ask(self) -> None:
        self._over = self._is_done()
