"""Counts of lines by severity over time, without reading the entire log again."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from datetime import datetime, timedelta

from tui.store.log.lines import EPOCH, GAP, Lines
from tui.store.log.store import LogBlock, LogStore

READ = 24
"""Number of blocks read to date their warnings and errors exactly. Other blocks' counts are spread evenly."""


@dataclass(slots=True)
class Bin:
    """The lines of one interval."""

    fine: float = 0
    warnings: float = 0
    errors: float = 0

    @property
    def total(self) -> float:
        """Number of lines of the interval."""
        return self.fine + self.warnings + self.errors


@dataclass(frozen=True, slots=True)
class Histogram:
    """Bins of equal length from `start` up to `end`."""

    start: datetime
    end: datetime
    bins: list[Bin]


def histogram(store: LogStore, count: int) -> Histogram | None:
    """Return the entire log in `count` bins; `None` if it spans no time."""
    blocks = [block for _, block in store.blocks(store.first, store.end)]
    if not blocks or count < 1:
        return None
    first, last = blocks[0].first[0], blocks[-1].last[0]
    if last <= first:
        return None
    width = (last - first) / count
    bins = [Bin() for _ in range(count)]
    left = READ
    # Start with the newest blocks, which matter most.
    for block in reversed(blocks):
        low = min(count - 1, int((block.first[0] - first) / width))
        high = min(count - 1, int((block.last[0] - first) / width))
        # A block in memory costs nothing. Of the other blocks, read only blocks with warnings or errors.
        telling = block.counts[1] or block.counts[2] or len(blocks) <= READ
        if low != high and (block.lines is not None or (telling and left)):
            left -= block.lines is None
            _place(store.lines(block), bins, first, width)
        else:
            _spread(block, bins[low : high + 1])
    return Histogram(_moment(first), _moment(last), bins)


def _spread(block: LogBlock, over: list[Bin]) -> None:
    fine, warnings, errors, _ = block.counts
    for target in over:
        target.fine += fine / len(over)
        target.warnings += warnings / len(over)
        target.errors += errors / len(over)


def _place(lines: Lines, bins: list[Bin], first: int, width: float) -> None:
    at, levels = 0, lines.levels
    while at < len(lines):
        which = min(len(bins) - 1, int((lines.times[at] - first) / width))
        end = len(lines)
        if which < len(bins) - 1:
            end = max(at + 1, bisect_left(lines.times, first + (which + 1) * width, at))
        codes = levels[at:end]
        warnings, gaps = codes.count(4), codes.count(GAP)
        fine = sum(map(codes.count, range(4)))
        bins[which].fine += fine
        bins[which].warnings += warnings
        bins[which].errors += len(codes) - fine - warnings - gaps
        at = end


def _moment(time: int) -> datetime:
    return EPOCH + timedelta(microseconds=time // 1000)
