"""Merges the streams of containers into one log in the order of time. Pure; `now` is in seconds of any clock.

A stream that has just been opened, or was lost, is waited for: what others have that is newer than its
newest line comes after what it brings. A stream that is quiet, or lost for long, holds nothing back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import datetime
from heapq import heapify, heappop, heapreplace

from tui.backends.kubernetes.logs.lines.stamped import SECOND
from tui.domain.core.log_entry import LogEntry

HOLD = 0.3
"""Seconds that an entry waits for older ones of other streams, and that a stream is waited for."""
STALLED = 5.0
"""Longest wait for a stream that is lost, or for a node whose clock is behind."""
MOST_QUEUED = 8_000
"""Entries of one stream that wait; beyond that it is not read."""
_NEVER = float("-inf")


class LineStream:
    """One stream of a merge."""

    def __init__(self) -> None:
        self.queue: deque[tuple[int, float, LogEntry]] = deque()
        """(the node's time, when it came, the entry)."""
        self.stamp = -1
        """The node's time of its newest line."""
        self.active_at = _NEVER
        """When it last brought something, was opened, or lost."""
        self.lost = False
        self.closed = False

    @property
    def full(self) -> bool:
        """It should not be read on now."""
        return len(self.queue) >= MOST_QUEUED

    def add(self, stamp: int, entries: Iterable[LogEntry], now: float) -> None:
        """Entries of a line, in the order of the file."""
        self.stamp, self.active_at, self.lost = stamp, now, False
        self.queue.extend((stamp, now, entry) for entry in entries)

    def opened(self, now: float) -> None:
        """It is connected, and may bring older lines yet."""
        self.lost, self.active_at = False, now

    def lose(self, now: float) -> None:
        """It is being connected, for the first time or again."""
        if not self.lost:
            self.lost, self.active_at = True, now

    def rest(self) -> None:
        """It has nothing to bring for now."""
        self.lost, self.active_at = False, _NEVER

    def close(self) -> None:
        """It has ended."""
        self.closed = True

    def holds(self, now: float, hold: float) -> bool:
        """Whether lines older than those of others may still come from it."""
        return not self.closed and now - self.active_at < (STALLED if self.lost else hold)


class Merge:
    """Takes entries of several streams and returns them in the order of time."""

    def __init__(self, hold: float = HOLD) -> None:
        self._hold = hold
        self._sources: list[LineStream] = []
        self._checked: tuple[float, int] = (_NEVER, 0)
        """When the progress of the log was looked at, and how far it had come."""
        self._catching_up = False

    def open(self) -> LineStream:
        """Another stream."""
        source = LineStream()
        self._sources.append(source)
        return source

    @property
    def waiting(self) -> bool:
        """Whether there are entries to return."""
        return any(source.queue for source in self._sources)

    @property
    def oldest(self) -> int | None:
        """The node's time of the oldest entry that waits."""
        return min((source.queue[0][0] for source in self._sources if source.queue), default=None)

    def ready(self, now: float) -> list[LogEntry]:
        """Entries whose wait is over, in order."""
        found: list[LogEntry] = []
        if self.waiting:
            self._take_due(found, now)
            self._look_at_progress(now)
            if not self._catching_up:
                self._take_overdue(found, now)
        self._sources = [source for source in self._sources if source.queue or not source.closed]
        return sorted(found, key=_key)

    def rest(self) -> list[LogEntry]:
        """All entries that still wait."""
        found = [entry for source in self._sources for _, _, entry in source.queue]
        for source in self._sources:
            source.queue.clear()
        return sorted(found, key=_key)

    def _take_due(self, found: list[LogEntry], now: float) -> None:
        """Move what no older line can precede any more."""
        late = now - self._hold
        heads = [(source.queue[0][0], at) for at, source in enumerate(self._sources) if source.queue]
        empty = (source for source in self._sources if not source.queue)
        limit = min((source.stamp for source in empty if source.holds(now, self._hold)), default=None)
        heapify(heads)
        while heads:
            stamp, at = heads[0]
            queue = self._sources[at].queue
            if queue[0][1] > late or (limit is not None and stamp >= limit):
                return
            found.append(queue.popleft()[2])
            if queue:
                heapreplace(heads, (queue[0][0], at))
                continue
            heappop(heads)
            if self._sources[at].holds(now, self._hold):
                limit = stamp if limit is None else min(limit, stamp)

    def _take_overdue(self, found: list[LogEntry], now: float) -> None:
        """Move what has waited for long: a clock that is hours behind would hold the log back for ever."""
        for source in self._sources:
            while source.queue and source.queue[0][1] <= now - STALLED:
                found.append(source.queue.popleft()[2])

    def _look_at_progress(self, now: float) -> None:
        """A history passes faster than it was written: its streams wait for each other for any time."""
        at, known = self._checked
        oldest = self.oldest
        if oldest is not None and now - at >= STALLED:
            self._catching_up = at > _NEVER and oldest - known > 2 * (now - at) * SECOND
            self._checked = (now, oldest)


def _key(entry: LogEntry) -> tuple[datetime, int, str, str]:
    return entry.key
