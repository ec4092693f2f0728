"""Numbers from programs, checked for the range in which they can be drawn and summed."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

MOST_STEPS = 10**12
"""Maximum count of steps."""
LARGEST = 1e40
"""Maximum magnitude. float32 ends at 3.4e38, and squares of values must not overflow."""


def figure(value: object) -> float | None:
    """Return a reported number as a float; `None` for any other value or one out of range. NaN and infinity
    stay, because the user should see a loss with that value."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if abs(number) <= LARGEST or not math.isfinite(number) else None


def finite(value: object) -> float | None:
    """Return a reported number like `figure`, but `None` for NaN and infinity."""
    number = figure(value)
    return number if number is not None and math.isfinite(number) else None


def later(moment: datetime, span: timedelta) -> datetime | None:
    """Return `moment` plus `span`, or `None` beyond the last representable time."""
    try:
        return moment + span
    except OverflowError:
        return None


def count(value: object) -> int | None:
    """Return a reported number as a count of steps; `None` if it is negative, a fraction or out of range."""
    number = finite(value)
    if number is None or not 0 <= number <= MOST_STEPS or number != int(number):
        return None
    return int(number)
