"""Faults of the log service on request: broken streams; late, duplicate and unordered entries.

A late entry is stored with a receive time in the future, as in the cloud; until then it is missing from lists
and streams. Duplicate and unordered entries occur only in streams.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tui.emulator.logging.record import EntryRow


@dataclass(frozen=True, slots=True)
class LogFaults:
    """The faults of the log service; the default injects none. Shares are from 0 to 1, times in seconds."""

    cut_every: float = 0.0
    """Age at which a stream ends with UNAVAILABLE; 0 means never."""
    late_share: float = 0.0
    late_seconds: float = 0.0
    """Maximum delay of a late entry."""
    double_share: float = 0.0
    shuffle: bool = False
    """Whether the entries of a response are in random order."""

    def delayed(self, rows: Sequence[EntryRow]) -> Sequence[EntryRow]:
        """Delay the receive times of some rows."""
        if not self.late_share:
            return rows
        span = self.late_seconds * 1e9
        return [
            (*row[:6], row[6] + int(random.random() * span)) if random.random() < self.late_share else row
            for row in rows
        ]


class ActiveLogFaults:
    """The faults in force and the listeners for changes. Use only in the event loop."""

    def __init__(self) -> None:
        self.current = LogFaults()
        self._listeners: list[Callable[[LogFaults], None]] = []

    def set(self, faults: LogFaults) -> None:
        """Replace the faults and call the listeners."""
        self.current = faults
        for listener in tuple(self._listeners):
            listener(faults)

    def listen(self, listener: Callable[[LogFaults], None]) -> Callable[[], None]:
        """Call `listener` with every change; the returned function removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)
