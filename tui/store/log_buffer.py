"""Entries of one job in the order of their keys, bounded, and live views of parts of them.

Lines are numbered from the first one ever kept: line `n` stays `n` while lines are appended after it or
dropped before it; a late line that is put in place moves those behind it by one. Views hold such numbers,
so appending and dropping cost them nothing but the new lines.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from operator import le
from weakref import WeakSet

from tui.domain.entry import LogEntry, LogGap, Severity

Line = LogEntry | LogGap
Key = tuple[datetime, str, str]

LIMIT = 200_000
_GAP = "\0"


def line_key(line: Line) -> Key:
    """What orders a log; a gap stands before the entries of its moment."""
    if isinstance(line, LogEntry):
        return (line.timestamp, line.insert_id, line.replica)
    return (line.timestamp, "", f"{_GAP}{line.count:012} {line.reason}")


@dataclass(frozen=True, slots=True)
class Appended:
    """What one batch did: lines from number `start` on differ, `added` are new, `dropped` left the front."""

    start: int
    added: int = 0
    dropped: int = 0

    def __bool__(self) -> bool:
        return bool(self.added or self.dropped)


@dataclass(frozen=True, slots=True)
class LineFilter:
    """Which lines a view shows. No `replicas` means all; a gap always passes, unless only matches count.

    `text` gives the words of an entry that `pattern` is searched in: those that are shown.
    """

    replicas: frozenset[str] = frozenset()
    severity: Severity = Severity.DEFAULT
    pattern: re.Pattern[str] | None = None
    gaps: bool = True
    text: Callable[[LogEntry], str] = field(default=lambda entry: entry.message)

    @property
    def everything(self) -> bool:
        """Nothing is left out."""
        return not self.replicas and not self.severity and self.pattern is None and self.gaps

    def test(self) -> Callable[[Line], bool]:
        """A function that says whether a line passes."""
        replicas, least, text, gaps = self.replicas, self.severity, self.text, self.gaps
        search = self.pattern.search if self.pattern else None

        def passes(line: Line) -> bool:
            if not isinstance(line, LogEntry):
                return gaps and search is None
            if line.severity < least or (replicas and line.replica not in replicas):
                return False
            return search is None or search(text(line)) is not None

        return passes


class LogBuffer:
    """Up to `limit` newest lines. Not for use from several threads."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self.first = 0
        """Number of the first line that is kept; the count of those that had to go."""
        self._lines: list[Line] = []
        self._floor: Key | None = None
        self._views: WeakSet[View] = WeakSet()

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def end(self) -> int:
        """The number after the last line."""
        return self.first + len(self._lines)

    @property
    def dropped(self) -> int:
        """Lines that are not kept any more, because newer ones took their place."""
        return self.first

    def __getitem__(self, number: int) -> Line:
        """The line of that number. Raises IndexError for one that is not kept."""
        if not self.first <= number < self.end:
            raise IndexError(f"line {number} is not kept; there are {self.first} to {self.end - 1}")
        return self._lines[number - self.first]

    def slice(self, start: int, stop: int) -> Sequence[Line]:
        """Lines from number `start` up to before `stop`, as far as they are kept."""
        return self._lines[max(0, start - self.first) : max(0, stop - self.first)]

    @property
    def newest(self) -> datetime | None:
        """Time of the last line."""
        return self._lines[-1].timestamp if self._lines else None

    @property
    def oldest(self) -> datetime | None:
        """Time of the first line that is kept."""
        return self._lines[0].timestamp if self._lines else None

    def find(self, line: Line) -> int:
        """The number that this line has, or would have."""
        return self.first + bisect_left(self._lines, line_key(line), key=line_key)

    def append(self, entries: Sequence[LogEntry], gaps: Sequence[LogGap] = ()) -> Appended:
        """Take lines over in whatever order they come; those already here are left out."""
        fresh: list[Line] = [*entries, *gaps] if gaps else list(entries)
        keys = [line_key(line) for line in fresh]
        if not all(map(le, keys, keys[1:])):
            order = sorted(range(len(keys)), key=keys.__getitem__)
            fresh, keys = [fresh[at] for at in order], [keys[at] for at in order]
        if any(a == b for a, b in pairwise(keys)):
            kept = [at for at in range(len(keys)) if at == 0 or keys[at] != keys[at - 1]]
            fresh, keys = [fresh[at] for at in kept], [keys[at] for at in kept]
        if self._floor is not None:
            # What is older than all that was dropped would be dropped at once.
            late = bisect_left(keys, self._floor)
            late += late < len(keys) and keys[late] == self._floor
            fresh, keys = fresh[late:], keys[late:]
        if not fresh:
            return Appended(self.end)
        start, added = self._merge(fresh, keys)
        for view in self._views:
            view.forget_from(start)
        return Appended(start, added, self._drop())

    def _merge(self, fresh: list[Line], keys: list[Key]) -> tuple[int, int]:
        lines = self._lines
        if not lines or line_key(lines[-1]) < keys[0]:
            at = len(lines)
            lines.extend(fresh)
            return self.first + at, len(fresh)
        at = bisect_left(lines, keys[0], key=line_key)
        tail = lines[at:]
        there = {line_key(line) for line in tail}
        new = [line for line, key in zip(fresh, keys, strict=True) if key not in there]
        if not new:
            return self.end, 0
        at = bisect_left(lines, line_key(new[0]), lo=at, key=line_key)
        lines[at:] = sorted([*lines[at:], *new], key=line_key)
        return self.first + at, len(new)

    def _drop(self) -> int:
        over = len(self._lines) - self.limit
        if over <= 0:
            return 0
        self._floor = line_key(self._lines[over - 1])
        del self._lines[:over]
        self.first += over
        return over

    def view(self, filter: LineFilter | None = None) -> View:
        """A view that stays true as lines come; let go of it to end it."""
        made = View(self, filter or LineFilter())
        self._views.add(made)
        return made


class View:
    """Numbers of the lines that pass a filter, in order. `catch_up` looks at lines that are new."""

    def __init__(self, buffer: LogBuffer, filter: LineFilter) -> None:
        self.buffer = buffer
        self.filter = filter
        self._everything = filter.everything
        self._passes = filter.test()
        self._numbers: array[int] = array("q")
        self._scanned = buffer.first

    def __len__(self) -> int:
        if self._everything:
            return max(0, self._scanned - self.buffer.first)
        self._trim()
        return len(self._numbers)

    @property
    def behind(self) -> int:
        """Lines that have not been looked at yet."""
        return self.buffer.end - max(self._scanned, self.buffer.first)

    def catch_up(self, most: int | None = None) -> bool:
        """Look at up to `most` new lines; whether none is left."""
        buffer = self.buffer
        start = max(self._scanned, buffer.first)
        stop = buffer.end if most is None else min(buffer.end, start + most)
        if not self._everything:
            passes = self._passes
            found = [at for at, line in enumerate(buffer.slice(start, stop), start) if passes(line)]
            self._numbers.extend(found)
        self._scanned = stop
        return stop == buffer.end

    def forget_from(self, number: int) -> None:
        """Lines from `number` on are to be looked at again."""
        if number >= self._scanned:
            return
        self._scanned = number
        if not self._everything:
            del self._numbers[bisect_left(self._numbers, number) :]

    def _trim(self) -> None:
        first = self.buffer.first
        if self._numbers and self._numbers[0] < first:
            del self._numbers[: bisect_left(self._numbers, first)]

    def number(self, at: int) -> int:
        """Number of the view's line at position `at`."""
        if self._everything:
            if not 0 <= at < len(self):
                raise IndexError(at)
            return self.buffer.first + at
        self._trim()
        return self._numbers[at]

    def position(self, number: int) -> int:
        """Position of the first line whose number is `number` or more."""
        if self._everything:
            return min(len(self), max(0, number - self.buffer.first))
        self._trim()
        return bisect_left(self._numbers, number)

    def __getitem__(self, at: int) -> Line:
        return self.buffer[self.number(at)]

    def __iter__(self) -> Iterator[Line]:
        for at in range(len(self)):
            yield self[at]
