"""Times in Kubernetes' formats."""

from __future__ import annotations

import time
from datetime import UTC, datetime

NANOSECONDS = 1_000_000_000


def rfc3339(at: datetime | float | None = None) -> str:
    """Format a time, by default now, to the second. A number is in seconds since the epoch."""
    if not isinstance(at, datetime):
        at = datetime.fromtimestamp(time.time() if at is None else at, UTC)
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_nano(nanoseconds: int) -> str:
    """Format a time as the prefix of a log line."""
    seconds, rest = divmod(nanoseconds, NANOSECONDS)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{rest:09d}Z"


def parse(text: str) -> int:
    """Parse a time to nanoseconds since the epoch. Raises ValueError."""
    whole, dot, rest = text.partition(".")
    fraction, zone = "", ""
    if dot:
        digits = len(rest) - len(rest.lstrip("0123456789"))
        fraction, zone = rest[:digits], rest[digits:]
    base = datetime.fromisoformat(whole + zone)
    if base.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return round(base.timestamp()) * NANOSECONDS + int((fraction + "0" * 9)[:9])


def age_seconds(text: str) -> float:
    """Return the seconds since a time in Kubernetes' format. Raises ValueError."""
    return time.time() - parse(text) / NANOSECONDS
