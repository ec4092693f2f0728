"""A live view of the lines of a log that pass a filter: their numbers, two bytes each."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import accumulate
from typing import Protocol

from tui.store.log.filters import LineFilter
from tui.store.log.lines import Line, Lines

_CHUNK = 16
"""Logarithm of the chunk size. Chunks hold 2 to this power numbers, so that each takes two bytes."""
LOOK_BACK = 4_000
_LOW = (1 << _CHUNK) - 1


class LineSource(Protocol):
    """The lines behind a view: `LogStore`, or a text file."""

    @property
    def first(self) -> int:
        """Number of the first stored line."""
        ...

    @property
    def end(self) -> int:
        """The number after the last line."""
        ...

    @property
    def revision(self) -> int:
        """A counter that changes when a late line was inserted, so that numbers may denote other lines."""
        ...

    @property
    def oldest(self) -> datetime | None:
        """Time of the first line; `None` without lines, or if lines have no times."""
        ...

    @property
    def dropped(self) -> int:
        """Number of dropped lines."""
        ...

    def __len__(self) -> int: ...
    def __getitem__(self, number: int) -> Line: ...
    def find(self, line: Line) -> int:
        """Return the number that this line has, or would get if it were added."""
        ...

    def view(self, filter: LineFilter | None = None) -> View:
        """Return a view that follows new lines."""
        ...

    def columns(self, start: int, stop: int) -> Iterable[tuple[int, Lines]]:
        """Yield (first line's number, columns) of each block with lines from `start` to before `stop`."""
        ...


class View:
    """Numbers of the lines that pass a filter, in order. `catch_up` scans new lines."""

    def __init__(self, source: LineSource, filter: LineFilter) -> None:
        self.source = source
        self.filter = filter
        self._everything = filter.everything
        self._chunks: dict[int, array[int]] = {}
        self._order: list[int] = []
        self._ends: list[int] | None = []
        self._scanned_to = source.first

    def __len__(self) -> int:
        if self._everything:
            return max(0, self._scanned_to - self.source.first)
        self._trim()
        ends = self._positions()
        return ends[-1] if ends else 0

    @property
    def unscanned(self) -> int:
        """Number of lines that have not been scanned yet."""
        return self.source.end - max(self._scanned_to, self.source.first)

    def catch_up(self, most: int | None = None) -> bool:
        """Scan up to `most` new lines. Return whether all lines are scanned."""
        source = self.source
        start = max(self._scanned_to, source.first)
        stop = source.end if most is None else min(source.end, start + most)
        if not self._everything:
            for number, lines in source.columns(start, stop):
                low, high = max(0, start - number), min(len(lines), stop - number)
                self._add(number + at + low for at in self.filter.of(lines.cut(low, high)))
        self._scanned_to = stop
        return stop == source.end

    def take(self, numbers: Iterable[int], scanned: int) -> None:
        """Add another search's matches among the lines before `scanned`."""
        if scanned > self._scanned_to:
            self.rescan_from(self.source.first)
            self._add(numbers)
            self._scanned_to = scanned

    def scan_back(self, enough: int) -> None:
        """Scan backwards from the last line until `enough` lines pass; earlier lines stay out of the view."""
        source, start = self.source, self.source.end
        matches: list[int] = []
        while start > source.first and len(matches) < enough:
            stop, start = start, max(source.first, start - LOOK_BACK)
            part = []
            for number, lines in source.columns(start, stop):
                low, high = max(0, start - number), min(len(lines), stop - number)
                part += [number + at + low for at in self.filter.of(lines.cut(low, high))]
            matches = part + matches
        self._add(matches[-enough:])
        self._scanned_to = source.end

    def _add(self, numbers: Iterable[int]) -> None:
        chunks = self._chunks
        for number in numbers:
            high = number >> _CHUNK
            if high not in chunks:
                chunks[high] = array("H")
                self._order.append(high)
            chunks[high].append(number & _LOW)
            self._ends = None

    def rescan_from(self, number: int) -> None:
        """Rescan the lines from `number` on."""
        if number >= self._scanned_to:
            return
        self._scanned_to = number
        while self._order and self._order[-1] << _CHUNK >= number:
            del self._chunks[self._order.pop()]
        if self._order:
            last = self._chunks[self._order[-1]]
            del last[bisect_left(last, number - (self._order[-1] << _CHUNK)) :]
        self._ends = None

    def _trim(self) -> None:
        """Drop the numbers of dropped lines."""
        first = self.source.first
        while self._order and ((self._order[0] + 1) << _CHUNK) <= first:
            del self._chunks[self._order.pop(0)]
            self._ends = None
        if self._order and (self._order[0] << _CHUNK) < first:
            chunk = self._chunks[self._order[0]]
            gone = bisect_left(chunk, first - (self._order[0] << _CHUNK))
            if gone:
                del chunk[:gone]
                self._ends = None

    def _positions(self) -> list[int]:
        """Return the position after the last line of each chunk."""
        if self._ends is None:
            self._ends = list(accumulate(len(self._chunks[high]) for high in self._order))
        return self._ends

    def number(self, at: int) -> int:
        """Return the number of the view's line at position `at`. Raises IndexError beyond the last line."""
        if self._everything:
            if not 0 <= at < len(self):
                raise IndexError(at)
            return self.source.first + at
        self._trim()
        ends = self._positions()
        which = bisect_right(ends, at)
        if at < 0 or which == len(ends):
            raise IndexError(at)
        high = self._order[which]
        return (high << _CHUNK) + self._chunks[high][at - (ends[which - 1] if which else 0)]

    def position(self, number: int) -> int:
        """Return the position of the first line whose number is `number` or more."""
        if self._everything:
            return min(len(self), max(0, number - self.source.first))
        self._trim()
        ends = self._positions()
        high = number >> _CHUNK
        which = bisect_left(self._order, high)
        before = ends[which - 1] if which else 0
        if which < len(self._order) and self._order[which] == high:
            return before + bisect_left(self._chunks[high], number & _LOW)
        return before

    def __getitem__(self, at: int) -> Line:
        return self.source[self.number(at)]

    def lines(self, start: int, stop: int) -> list[tuple[int, Line]]:
        """Return (number, line) at the positions from `start` up to before `stop`, or up to the end."""
        numbers = [self.number(at) for at in range(max(0, start), min(stop, len(self)))]
        source = self.source
        return [(number, source[number]) for number in numbers]

    def __iter__(self) -> Iterator[Line]:
        for at in range(len(self)):
            yield self[at]
