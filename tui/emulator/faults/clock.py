"""The emulator's wall clock, which a fault can set forward or back.

The times of jobs, operations and training pipelines come from it. Log entries and samples have the time of
the machine that runs the replicas.
"""

from __future__ import annotations

import time as system
from collections.abc import Mapping
from typing import Any

from tui.emulator.faults.limit import Limit, limit_of, number

LARGEST_OFFSET = 10 * 366 * 86400.0
_offset_ns = 0
_limit = Limit()


def set_offset(asked: Mapping[str, Any]) -> None:
    """Set the clock `offset` seconds ahead of the machine's (negative: behind), for `lasts` seconds.

    Raises:
        ValueError: naming the invalid field.
    """
    global _offset_ns, _limit  # noqa: PLW0603 - one process has one clock
    offset = number(asked, "offset", -LARGEST_OFFSET, LARGEST_OFFSET)
    _limit = limit_of({"lasts": asked.get("lasts", 0)})
    _offset_ns = int(offset * 1e9)


def fields() -> dict[str, float]:
    """What the admin shows: `offset` in seconds, 0 without a fault."""
    return {"offset": _current_ns() / 1e9, "left_seconds": _limit.fields()["left_seconds"]}


def time_ns() -> int:
    """Nanoseconds since the epoch."""
    return system.time_ns() + _current_ns()


def time() -> float:
    """Seconds since the epoch."""
    return system.time() + _current_ns() / 1e9


def _current_ns() -> int:
    return 0 if _limit.over else _offset_ns
