"""Merges the streams of containers into one log ordered by time. The module does no I/O; `now` is in seconds
of any clock.

Newer lines of other streams wait for a stream that was just opened or lost. A stream that is quiet, or lost
for long, delays nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import datetime
from heapq import heapify, heappop, heapreplace

from tui.backends.kubernetes.logs.lines.stamped import SECOND
from tui.domain.core.log_entry import LogEntry

HOLD = 0.3
"""Maximum time in seconds that an entry waits for older entries of other streams."""
STALLED = 5.0
"""Maximum wait in seconds for a lost stream, or for a node whose clock lags."""
MOST_QUEUED = 8_000
"""Queue length of a stream at which reading the stream pauses."""
_NEVER = float("-inf")


class LineStream:
    """One stream of a merge."""

    def __init__(self) -> None:
        self.queue: deque[tuple[int, float, LogEntry]] = deque()
        """Queued entries: (node's time, arrival, entry)."""
        self.stamp = -1
        """Node's timestamp of the newest line."""
        self.active_at = _NEVER
        """Time at which the stream last returned a line, was opened, or was lost."""
        self.lost = False
        self.closed = False

    @property
    def full(self) -> bool:
        """Whether reading the stream should pause."""
        return len(self.queue) >= MOST_QUEUED

    def add(self, stamp: int, entries: Iterable[LogEntry], now: float) -> None:
        """Add the entries of a line, in file order."""
        self.stamp, self.active_at, self.lost = stamp, now, False
        self.queue.extend((stamp, now, entry) for entry in entries)

    def opened(self, now: float) -> None:
        """Mark the stream as connected; it may still return older lines."""
        self.lost, self.active_at = False, now

    def lose(self, now: float) -> None:
        """Mark the stream as connecting, for the first time or again."""
        if not self.lost:
            self.lost, self.active_at = True, now

    def rest(self) -> None:
        """Mark the stream as idle."""
        self.lost, self.active_at = False, _NEVER

    def close(self) -> None:
        """Mark the stream as ended."""
        self.closed = True

    def holds(self, now: float, hold: float) -> bool:
        """Return whether the stream may still return lines older than those of other streams."""
        return not self.closed and now - self.active_at < (STALLED if self.lost else hold)


class Merge:
    """Collects entries of several streams and returns them ordered by time."""

    def __init__(self, hold: float = HOLD) -> None:
        self._hold = hold
        self._sources: list[LineStream] = []
        self._checked: tuple[float, int] = (_NEVER, 0)
        """Time of the last progress check, and the oldest entry at that time."""
        self._catching_up = False

    def open(self) -> LineStream:
        """Open another stream."""
        source = LineStream()
        self._sources.append(source)
        return source

    @property
    def waiting(self) -> bool:
        """Whether entries are waiting."""
        return any(source.queue for source in self._sources)

    @property
    def oldest(self) -> int | None:
        """Node's timestamp of the oldest waiting entry."""
        return min((source.queue[0][0] for source in self._sources if source.queue), default=None)

    def ready(self, now: float) -> list[LogEntry]:
        """Remove and return the entries whose wait is over, in order."""
        due: list[LogEntry] = []
        if self.waiting:
            self._take_due(due, now)
            self._look_at_progress(now)
            if not self._catching_up:
                self._take_overdue(due, now)
        self._sources = [source for source in self._sources if source.queue or not source.closed]
        return sorted(due, key=_key)

    def rest(self) -> list[LogEntry]:
        """Remove and return all waiting entries."""
        waiting_entries = [entry for source in self._sources for _, _, entry in source.queue]
        for source in self._sources:
            source.queue.clear()
        return sorted(waiting_entries, key=_key)

    def _take_due(self, due: list[LogEntry], now: float) -> None:
        """Move the entries that no older line can precede to `due`."""
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
            due.append(queue.popleft()[2])
            if queue:
                heapreplace(heads, (queue[0][0], at))
                continue
            heappop(heads)
            if self._sources[at].holds(now, self._hold):
                limit = stamp if limit is None else min(limit, stamp)

    def _take_overdue(self, due: list[LogEntry], now: float) -> None:
        """Move overdue entries to `due`, because a clock that is hours slow would otherwise delay the log."""
        for source in self._sources:
            while source.queue and source.queue[0][1] <= now - STALLED:
                due.append(source.queue.popleft()[2])

    def _look_at_progress(self, now: float) -> None:
        """Detect a backlog, whose lines arrive faster than they were written and wait for each other."""
        at, known = self._checked
        oldest = self.oldest
        if oldest is not None and now - at >= STALLED:
            self._catching_up = at > _NEVER and oldest - known > 2 * (now - at) * SECOND
            self._checked = (now, oldest)


def _key(entry: LogEntry) -> tuple[datetime, int, str, str]:
    return entry.key
