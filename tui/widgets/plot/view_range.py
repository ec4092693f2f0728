"""The part of the x axis that charts show, and the position of their crosshair; x is in seconds.

The axis grows at its right end while a job runs. A range that ends there moves with it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

Range = tuple[float, float]
MIN_SPAN = 5.0
"""Minimum range that can be zoomed to, in seconds."""
NEAR = 0.05
"""Fraction of the range within which the crosshair shows the nearest point's value."""


@dataclass(frozen=True, slots=True)
class ViewRange:
    """`span` is the shown width, `None` for all; `end` is its right edge, `None` for the newest."""

    span: float | None = None
    end: float | None = None
    cross: float | None = None

    def window(self, full: Range) -> Range:
        """Return the start and end, clipped to the full range."""
        low, high = full
        end = high if self.end is None else max(low, min(high, self.end))
        return (low, high) if self.span is None else (max(low, end - self.span), end)

    def zoom(self, full: Range, factor: float) -> ViewRange:
        """Multiply the shown width. The crosshair or, without a crosshair, the right edge stays fixed."""
        low, high = self.window(full)
        span = max(MIN_SPAN, (high - low) * factor)
        if span >= full[1] - full[0]:
            return replace(self, span=None, end=None)
        middle = high if self.cross is None else max(low, min(high, self.cross))
        share = (high - middle) / ((high - low) or 1.0)
        return replace(self, span=span)._ending(full, middle + share * span)

    def pan(self, full: Range, share: float) -> ViewRange:
        """Move right by a fraction of the shown width, or left if it is negative."""
        if self.span is None:
            return self
        return self._ending(full, self.window(full)[1] + share * self.span)

    def move(self, full: Range, share: float) -> ViewRange:
        """Move the crosshair by a fraction of the shown width. The range follows it."""
        low, high = self.window(full)
        at = high if self.cross is None else self.cross + share * (high - low)
        moved = replace(self, cross=max(full[0], min(full[1], at)))
        assert moved.cross is not None
        if moved.cross < low:
            return moved._ending(full, moved.cross + (high - low))
        return moved._ending(full, moved.cross) if moved.cross > high else moved

    def _ending(self, full: Range, end: float) -> ViewRange:
        span = self.span or 0.0
        if end >= full[1]:
            return replace(self, end=None)
        return replace(self, end=max(full[0] + span, end))


def part(x: Sequence[float], y: Sequence[float], window: Range) -> tuple[Sequence[float], Sequence[float]]:
    """Return the points within the window and one more on each side, so that lines reach the edges."""
    first = max(0, bisect_left(x, window[0]) - 1)
    last = bisect_right(x, window[1]) + 1
    return x[first:last], y[first:last]


def value_at(x: Sequence[float], y: Sequence[float], at: float, window: Range) -> float | None:
    """Return the y value of the point nearest to `at`; `None` if no point is near."""
    if not x:
        return None
    right = bisect_left(x, at)
    near = min((i for i in (right - 1, right) if 0 <= i < len(x)), key=lambda i: abs(x[i] - at))
    return y[near] if abs(x[near] - at) <= NEAR * (window[1] - window[0]) else None
