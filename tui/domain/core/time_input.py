"""Parses a typed time: a span, an offset from the start, a clock time or a full time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta

_SPAN = re.compile(r"(?P<sign>[+-]?)(?P<count>\d+(?:\.\d+)?)(?P<unit>[smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_span(text: str) -> timedelta | None:
    """Parse `90s`, `10m`, `2h`, `1.5d`, with or without a sign; `None` for any other text. Raises
    OverflowError if the span is too long for a timedelta."""
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        return None
    span = timedelta(seconds=float(match["count"]) * _SECONDS[match["unit"]])
    return -span if match["sign"] == "-" else span


def parse_time(text: str, *, now: datetime, start: datetime | None, near: datetime | None = None) -> datetime:
    """Parse a time in this machine's zone; `-10m` counts from `now`, `+5m` from `start`.

    A clock time such as `14:02` is on the day of `near`, by default today. Raises ValueError with the
    accepted formats, for any other text.
    """
    words = "write 14:02, 14:02:11, +5m from the start, -10m from now, or 2026-11-21T14:02"
    text = text.strip()
    try:
        span = parse_span(text)
        if span is not None and text.startswith("+"):
            if start is None:
                raise ValueError("the job has not started: write -10m from now, or a time")
            return start + span
        if span is not None:
            return now - abs(span)
        if re.fullmatch(r"\d{1,2}:\d{2}(:\d{2}(\.\d{1,6})?)?", text):
            day = (near or now).astimezone()
            clock = time.fromisoformat(text.zfill(5) if text.count(":") == 1 else text.zfill(8))
            return datetime.combine(day.date(), clock).astimezone().astimezone(UTC)
        return datetime.fromisoformat(text).astimezone(UTC)
    except OverflowError:
        raise ValueError("the time is out of range") from None
    except ValueError as error:
        raise ValueError(str(error) if "started" in str(error) else f"{words}") from None
