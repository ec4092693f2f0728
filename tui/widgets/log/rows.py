"""Position of log lines on the screen: one row per line, or wrapped long lines."""

from __future__ import annotations

from tui.store.log.view import View
from tui.widgets.log.paint import LinePainter


def rows_of(view: View, paint: LinePainter, at: int) -> int:
    """Return the number of rows of the line at a position."""
    return len(paint.chunks(view[at])) if paint.tall else 1


def top_for(view: View, paint: LinePainter, height: int, at: int) -> int:
    """Return the lowest top position at which the line at `at` is completely visible."""
    if not paint.tall:
        return max(0, at - height + 1)
    rows, top = 0, at + 1
    while top > 0:
        rows += rows_of(view, paint, top - 1)
        if rows > height:
            break
        top -= 1
    return max(0, min(top, at))


def visible_rows(
    view: View, paint: LinePainter, height: int, top: int, *, following: bool
) -> list[tuple[int, int]]:
    """Return (position, row of the line) for each row of the screen that has a line."""
    count = len(view)
    if not paint.tall:
        return [(at, 0) for at in range(top, min(count, top + height))]
    rows: list[tuple[int, int]] = []
    end = top_for(view, paint, height, count - 1) if count else 0
    if count and top >= end and (following or rows_of(view, paint, count - 1) <= height):
        # The last page ends with the last row; its first line may begin above the view.
        for at in range(max(0, end - 1), count):
            rows += [(at, row) for row in range(rows_of(view, paint, at))]
        return rows[-height:]
    at = top
    while at < count and len(rows) < height:
        rows += [(at, row) for row in range(rows_of(view, paint, at))]
        at += 1
    return rows[:height]
