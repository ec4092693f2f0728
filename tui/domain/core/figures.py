"""Numbers that a program reports: in a range that can be drawn and counted with, or not measured."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

MOST_STEPS = 10**12
"""A larger count is no step."""
LARGEST = 1e40
"""Largest magnitude of a figure: float32 ends at 3.4e38, and squares of figures must not overflow."""


def figure(value: object) -> float | None:
    """A reported number as a float; `None` for anything else and for one that is out of range.

    NaN and infinity stay what they are: a loss that is one of them is worth seeing.
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if abs(number) <= LARGEST or not math.isfinite(number) else None


def finite(value: object) -> float | None:
    """Return `figure`, or `None` for NaN and infinity."""
    number = figure(value)
    return number if number is not None and math.isfinite(number) else None


def later(moment: datetime, span: timedelta) -> datetime | None:
    """That much later, or `None` after the last moment that there is."""
    try:
        return moment + span
    except OverflowError:
        return None


def count(value: object) -> int | None:
    """A reported number as a count of steps; `None` for a negative one, a fraction or one out of range."""
    number = finite(value)
    if number is None or not 0 <= number <= MOST_STEPS or number != int(number):
        return None
    return int(number)
