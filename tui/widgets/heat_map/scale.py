"""Levels of a heat map and their appearance: a height and a colour, a digit, or one of 16 colours.

A cell is an integer code: `NOT_MEASURED`, or a level from 0 to `LEVELS`, plus `LATE` for an outdated figure.
Zero is a separate level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from textual.content import Content
from textual.widget import Widget

LEVELS = 10
"""The highest level of the scale."""
NOT_MEASURED = -1
LATE = 16

_HEIGHTS = "▁▂▃▄▅▆▇█"
GLYPHS = "0" + "".join(_HEIGHTS[math.ceil(level * len(_HEIGHTS) / LEVELS) - 1] for level in range(1, 11))
ASCII = "0123456789#"
NOT_MEASURED_GLYPH, NOT_MEASURED_ASCII = "·", "."
LATE_MARK = "?"
"""Suffix of a late cell: `▅?`."""

# The colours go from dim to bright on dark, from bright to dim on light. The lightness alone shows the order,
# for users who can't distinguish the hues.
DARK = (
    "#6a5fa8", "#6570b8", "#5b83c0", "#4f97c2", "#47a9bd",
    "#4bbab0", "#64ca9b", "#8cd981", "#bde56a", "#f3ee5c",
)  # fmt: skip
LIGHT = (
    "#b3a11f", "#93a02c", "#729a3e", "#529152", "#268a62",
    "#1f7f6c", "#1f6f84", "#245c86", "#452a86", "#3d0f50",
)  # fmt: skip
ANSI = (
    "ansi_blue", "ansi_blue", "ansi_bright_blue", "ansi_bright_blue", "ansi_cyan",
    "ansi_cyan", "ansi_bright_cyan", "ansi_bright_cyan", "ansi_yellow", "ansi_yellow",
)  # fmt: skip


def share_level(value: float) -> int:
    """Return the level of a fraction: 0 for zero, 1 up to a tenth, … 10 above nine tenths."""
    if not value > 0:
        return 0
    # The fraction may be a float32: 0.3 must not count as above three tenths.
    return max(1, min(LEVELS, math.ceil(round(value * LEVELS, 6))))


def count_level(value: float) -> int:
    """Return the level of a count: 0, 1, 2, up to 4, up to 8, … 10 above 256."""
    if not value > 0:
        return 0
    return min(LEVELS, 1 + math.ceil(math.log2(max(1.0, value))))


def palette(widget: Widget) -> Sequence[str]:
    """Return the colours of the levels 1 to 10 in the current theme, as names for `Content`."""
    if widget.app.native_ansi_color:
        return ANSI
    return DARK if widget.app.current_theme.dark else LIGHT


def glyph(code: int, *, ascii_only: bool = False) -> str:
    """Return the two characters of a cell: its level, then a blank or the mark for late."""
    if code == NOT_MEASURED:
        return f"{NOT_MEASURED_ASCII if ascii_only else NOT_MEASURED_GLYPH} "
    drawn = (ASCII if ascii_only else GLYPHS)[code % LATE]
    return drawn + (LATE_MARK if code >= LATE else " ")


def colour(code: int, colours: Sequence[str]) -> str:
    """Return the style of a cell for `Content`. Late, not measured and zero cells are muted."""
    return colours[code - 1] if 1 <= code <= LEVELS else "$text-muted"


def cells(
    codes: Sequence[int], colours: Sequence[str], *, ascii_only: bool = False, close: bool = False
) -> Content:
    """Return the cells of one row for a table. With `close`, a cell is one character, and a late cell is the
    mark of lateness."""
    runs: list[tuple[str, str]] = []
    for code in codes:
        text, style = glyph(code, ascii_only=ascii_only), colour(code, colours)
        if close:
            text = text.strip()[-1]
        if runs and runs[-1][1] == style:
            runs[-1] = (runs[-1][0] + text, style)
        else:
            runs.append((text, style))
    return Content.assemble(*runs)


def legend(colours: Sequence[str], low: str, high: str, *, ascii_only: bool = False) -> Content:
    """Return the legend of the levels: `▁▂▃▄▅▆▇█ 10% … 100%  · not measured  ? late`."""
    shown = range(1, LEVELS + 1) if ascii_only else (1, 3, 4, 5, 7, 8, 9, 10)
    scale = [(glyph(level, ascii_only=ascii_only)[0], colours[level - 1]) for level in shown]
    missing = NOT_MEASURED_ASCII if ascii_only else NOT_MEASURED_GLYPH
    return Content.assemble(
        (f"{low} ", "$text-muted"),
        *scale,
        (f" {high}   0 zero   {missing} not measured   ? late", "$text-muted"),
    )
