"""Duration of a fault: a time, a number of calls, or until it is cleared."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

LONGEST_SECONDS = 86400.0
MOST_TIMES = 1_000_000_000


class Limit:
    """Counts the calls that a fault applies to. Threads may share a limit, because a race costs at most one
    call more or less."""

    def __init__(self, lasts: float = 0.0, times: int = 0) -> None:
        self.lasts, self.times = lasts, times
        self._until = time.monotonic() + lasts if lasts else float("inf")
        self._left = times
        self._ended = False

    @property
    def over(self) -> bool:
        """Whether the time has passed, or the fault was cleared."""
        return self._ended or time.monotonic() >= self._until

    @property
    def used_up(self) -> bool:
        """Whether the fault no longer applies to any call."""
        return self.over or (self.times > 0 and self._left <= 0)

    def take(self) -> bool:
        """Return whether the fault applies to the next call, and count the call."""
        if self.used_up:
            return False
        self._left -= 1
        return True

    def end(self) -> None:
        """Clear the fault."""
        self._ended = True

    def fields(self) -> dict[str, float]:
        """Return `left_seconds` and `left_times`, or 0 for a limit that is not set."""
        seconds = max(0.0, self._until - time.monotonic()) if self.lasts else 0.0
        return {"left_seconds": round(seconds, 1), "left_times": max(0, self._left) if self.times else 0}


def limit_of(arguments: Mapping[str, Any]) -> Limit:
    """Parse the limit of a request: `lasts` in seconds, `times` in calls; 0 or absent means no limit.

    Raises ValueError naming the invalid field.
    """
    lasts = number(arguments, "lasts", 0, LONGEST_SECONDS)
    return Limit(lasts, int(number(arguments, "times", 0, MOST_TIMES)))


def number(arguments: Mapping[str, Any], name: str, least: float, most: float) -> float:
    """Parse the number `name` of a request, 0 if absent.

    Raises ValueError for anything but a number from `least` to `most`.
    """
    value = arguments.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ValueError(f"{name} must be a number from {least:g} to {most:g}, not {value!r}")
    return float(value)
