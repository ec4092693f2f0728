"""Which part of the x axis plots show, and where their crosshair stands. Pure; x in seconds.

The axis grows at its right end while a job runs: a view that ends there goes on with it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

Range = tuple[float, float]
CLOSEST = 5.0
"""Shortest stretch that can be zoomed to, in seconds."""
FAR = 0.05
"""Share of what is shown within which a crosshair takes the nearest point's value."""


@dataclass(frozen=True, slots=True)
class PlotView:
    """`span` is what is shown, `None` for all; `end` its right edge, `None` for the newest."""

    span: float | None = None
    end: float | None = None
    cross: float | None = None

    def window(self, full: Range) -> Range:
        """From and to, within what there is."""
        low, high = full
        end = high if self.end is None else max(low, min(high, self.end))
        return (low, high) if self.span is None else (max(low, end - self.span), end)

    def zoom(self, full: Range, factor: float) -> PlotView:
        """Show `factor` times as much, the crosshair (or else the right edge) in its place."""
        low, high = self.window(full)
        span = max(CLOSEST, (high - low) * factor)
        if span >= full[1] - full[0]:
            return replace(self, span=None, end=None)
        middle = high if self.cross is None else max(low, min(high, self.cross))
        share = (high - middle) / ((high - low) or 1.0)
        return replace(self, span=span)._ending(full, middle + share * span)

    def pan(self, full: Range, share: float) -> PlotView:
        """Go on by a share of what is shown, or back where it is negative."""
        if self.span is None:
            return self
        return self._ending(full, self.window(full)[1] + share * self.span)

    def move(self, full: Range, share: float) -> PlotView:
        """Move the crosshair by a share of what is shown; it takes the view with it."""
        low, high = self.window(full)
        at = high if self.cross is None else self.cross + share * (high - low)
        moved = replace(self, cross=max(full[0], min(full[1], at)))
        assert moved.cross is not None
        if moved.cross < low:
            return moved._ending(full, moved.cross + (high - low))
        return moved._ending(full, moved.cross) if moved.cross > high else moved

    def _ending(self, full: Range, end: float) -> PlotView:
        span = self.span or 0.0
        if end >= full[1]:
            return replace(self, end=None)
        return replace(self, end=max(full[0] + span, end))


def part(x: Sequence[float], y: Sequence[float], window: Range) -> tuple[Sequence[float], Sequence[float]]:
    """Points within the window, and one more on each side, so that lines go on to the edges."""
    first = max(0, bisect_left(x, window[0]) - 1)
    last = bisect_right(x, window[1]) + 1
    return x[first:last], y[first:last]


def value_at(x: Sequence[float], y: Sequence[float], at: float, window: Range) -> float | None:
    """y of the point nearest to `at`; `None` where there is none near."""
    if not x:
        return None
    right = bisect_left(x, at)
    near = min((i for i in (right - 1, right) if 0 <= i < len(x)), key=lambda i: abs(x[i] - at))
    return y[near] if abs(x[near] - at) <= FAR * (window[1] - window[0]) else None
