"""The emulator's wall clock, which a fault can set forward or back.

Jobs, operations and training pipelines use this clock. Log entries and samples have the time of the machine
that runs the replicas.
"""

from __future__ import annotations

import time as system

from tui.emulator.faults.limit import Limit

_offset_ns = 0
_limit = Limit()


def set_offset(offset: float, limit: Limit) -> None:
    """Set the clock `offset` seconds ahead of the machine's (negative: behind), while `limit` lasts."""
    global _offset_ns, _limit  # noqa: PLW0603 - one process has one clock
    _limit = limit
    _offset_ns = int(offset * 1e9)


def fields() -> dict[str, float]:
    """Return the fields that the admin shows: `offset` in seconds, which is 0 if no fault is in force."""
    return {"offset": _current_ns() / 1e9, "left_seconds": _limit.fields()["left_seconds"]}


def time_ns() -> int:
    """Return the nanoseconds since the epoch by this clock."""
    return system.time_ns() + _current_ns()


def time() -> float:
    """Return the seconds since the epoch by this clock."""
    return system.time() + _current_ns() / 1e9


def _current_ns() -> int:
    return 0 if _limit.over else _offset_ns
