"""What a log service may do to its readers, on request: streams cut, entries late, doubled, out of order.

An entry is late as it is in the cloud: it is stored with a time of receipt that lies ahead, and until then
neither a list nor a stream has it. Doubled entries and those out of order are a stream's own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tui.emulator.logging.record import Row

_FIELDS = ("cut_every", "late_share", "late_seconds", "double_share", "shuffle")


@dataclass(frozen=True, slots=True)
class LogFaults:
    """Shares are from 0 to 1, times in seconds; the default is a service without faults."""

    cut_every: float = 0.0
    """Age at which a stream is ended with UNAVAILABLE; 0 for never."""
    late_share: float = 0.0
    late_seconds: float = 0.0
    """Latest that a late entry comes."""
    double_share: float = 0.0
    shuffle: bool = False
    """Entries of one response are in no order."""

    @classmethod
    def of(cls, asked: Mapping[str, Any]) -> LogFaults:
        """From the admin's request; what is not named is off.

        Raises:
            ValueError: naming the field that makes no sense.
        """
        numbers: dict[str, float] = {}
        for name in _FIELDS[:4]:
            value = asked.get(name, 0.0)
            most = 1.0 if name.endswith("_share") else 3600.0
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
                raise ValueError(f"{name} is a number from 0 to {most:g}, not {value!r}")
            numbers[name] = float(value)
        return cls(**numbers, shuffle=bool(asked.get("shuffle", False)))

    def delayed(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The rows, some of them received later than they were."""
        if not self.late_share:
            return rows
        span = self.late_seconds * 1e9
        return [
            (*row[:6], row[6] + int(random.random() * span)) if random.random() < self.late_share else row
            for row in rows
        ]


class FaultBoard:
    """The faults in force, and who wants to hear of new ones. Set and heard in the event loop."""

    def __init__(self) -> None:
        self.current = LogFaults()
        self._listeners: list[Callable[[LogFaults], None]] = []

    def set(self, faults: LogFaults) -> None:
        """From now on."""
        self.current = faults
        for listener in tuple(self._listeners):
            listener(faults)

    def listen(self, listener: Callable[[LogFaults], None]) -> Callable[[], None]:
        """Call `listener` with every change; the answer ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)
