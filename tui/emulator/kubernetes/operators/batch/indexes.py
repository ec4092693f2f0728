"""Sets of completion indexes in the format of a Job's status, e.g. `0,2-4`."""

from __future__ import annotations

from collections.abc import Iterable


def parse(text: str) -> set[int]:
    """Parse a set of indexes. Raises ValueError."""
    indexes: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        indexes.update(range(int(first), int(last or first) + 1))
    return indexes


def render(indexes: Iterable[int]) -> str:
    """Format indexes; runs of three or more get a hyphen."""
    runs: list[list[int]] = []
    for index in sorted(set(indexes)):
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(_run(first, last) for first, last in runs)


def _run(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"
