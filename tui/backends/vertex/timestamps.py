"""Timestamps of plain protobuf as aware datetimes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

EPOCH = datetime.fromtimestamp(0, UTC)
_FIRST, _LAST = -62_000_000_000, 253_000_000_000
"""Seconds since the epoch; times beyond are out of range, so that durations can be added to a time."""


def moment(message: Any, field: str) -> datetime | None:
    """Convert a Timestamp field to an aware datetime; `None` if it is not set or out of range."""
    value = getattr(message, field)
    seconds, nanos = value.seconds, value.nanos
    # A list of jobs calls this 40,000 times. Only an unset field and the epoch itself have zeros.
    return time_of(seconds, nanos) if seconds or nanos or message.HasField(field) else None


def time_of(seconds: int, nanos: int) -> datetime | None:
    """Return the time that long after the epoch, or `None` if it is out of range."""
    if not _FIRST < seconds < _LAST:
        return None
    # Most times of the service are full seconds, and the addition takes half as long again.
    if nanos:
        return EPOCH + timedelta(0, seconds, nanos // 1000)
    return datetime.fromtimestamp(seconds, UTC)


def latest(*times: datetime | None) -> datetime | None:
    """Return the latest of the known times, or `None` if none is known."""
    return max((at for at in times if at is not None), default=None)
