"""What a backend can do."""

from __future__ import annotations

from enum import Flag, auto


class Capability(Flag):
    """What a backend can do; actions that need more are not offered."""

    JOBS = auto()
    LAUNCH = auto()
    CANCEL = auto()
    DELETE = auto()
    LOGS = auto()
    TAIL = auto()
    METRICS = auto()
    QUOTAS = auto()
