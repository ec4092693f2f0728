"""A curve as text: dots of braille, or of ASCII, without axes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tui.domain.core.figures import finite

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of each dot of a braille character, by row and column."""


FEWEST = 5
"""Number of values below which a curve tells less than the values."""


def curve(
    values: Sequence[float], width: int, height: int, *, low: float | None = None, ascii_only: bool = False
) -> list[str]:
    """Return `height` lines of `width` cells with the values from left to right, from `low` or the lowest
    value on. There are no lines for few values."""
    across, down = (1, 1) if ascii_only else (2, 4)
    known = [value for value in map(finite, values) if value is not None]
    if len(known) < FEWEST or width < 1:
        return []
    columns = width * across
    spread = [known[at * len(known) // columns] for at in range(columns)]
    if len(known) > columns:
        # A mean shows the trend of a noisy loss better than single values.
        edges = [at * len(known) // columns for at in range(columns + 1)]
        spread = [sum(known[a:b]) / (b - a) for a, b in pairwise(edges)]
    high = max(spread)
    low = min(spread) if low is None else min(low, *spread)
    rows = height * down
    ys = [round((high - value) / (high - low) * (rows - 1)) if high > low else rows // 2 for value in spread]
    bits = [[0] * width for _ in range(height)]
    for x, y in enumerate(ys):
        before = ys[x - 1] if x else y
        for dot in range(min(before, y) + (before < y), max(before, y) - (before > y) + 1) or (y,):
            bits[dot // down][x // across] |= _DOTS[dot % down][x % across]
    return ["".join(_character(bit, ascii_only) for bit in row) for row in bits]


def _character(bits: int, ascii_only: bool) -> str:
    if not bits:
        return " "
    return "*" if ascii_only else chr(0x2800 + bits)
