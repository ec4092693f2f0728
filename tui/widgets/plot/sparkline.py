"""A sparkline as text: one character per time bucket, · for a bucket without a measurement."""

from __future__ import annotations

from collections.abc import Sequence

from tui.domain.core.figures import finite

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII = "_.:-=+*#"
NOT_MEASURED = "·"


def sparkline(
    values: Sequence[float | None], *, low: float = 0.0, high: float | None = 1.0, ascii_only: bool = False
) -> str:
    """Return one character per value between `low` and `high` (None for the maximum). Values outside are
    clipped.

    A value that is not finite, or out of range, counts as not measured.
    """
    values = [None if value is None else finite(value) for value in values]
    known = [value for value in values if value is not None]
    top = high if high is not None else max(known, default=low)
    steps = ASCII if ascii_only else BLOCKS
    drawn = []
    for value in values:
        if value is None:
            drawn.append("." if ascii_only else NOT_MEASURED)
        elif top <= low:
            drawn.append(steps[0])
        else:
            share = max(0.0, min(1.0, (value - low) / (top - low)))
            drawn.append(steps[min(len(steps) - 1, int(share * len(steps)))])
    return "".join(drawn)
