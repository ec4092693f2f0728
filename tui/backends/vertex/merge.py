"""One log out of many sources: each entry once, in order. Pure; times are in seconds of any clock."""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Iterable
from datetime import datetime

from tui.domain.entry import LogEntry

Key = tuple[datetime, int, str, str]
MEMORY = 50_000
"""Keys remembered, so that what comes twice is known: more than any back-fill's overlap holds."""


class LogMerger:
    """Entries go in as they come, and come out in the order of their keys.

    An entry waits `hold` seconds for an older one. One that comes later still is delivered when its own
    wait is over, out of order rather than not at all. An entry whose key was seen before is dropped.
    """

    def __init__(self, hold: float, memory: int = MEMORY) -> None:
        self._hold = hold
        self._memory = memory
        self._seen: OrderedDict[Key, None] = OrderedDict()
        self._heap: list[tuple[Key, int, LogEntry]] = []
        self._arrivals: deque[tuple[float, Key]] = deque()
        self._count = 0
        self.newest: datetime | None = None
        """Timestamp of the newest entry seen."""

    def fresh(self, entries: Iterable[LogEntry]) -> list[LogEntry]:
        """Those not seen before, now seen; for entries that are in order already."""
        found = []
        for entry in entries:
            key = entry.key
            if key in self._seen:
                continue
            self._seen[key] = None
            if len(self._seen) > self._memory:
                self._seen.popitem(last=False)
            if self.newest is None or key[0] > self.newest:
                self.newest = key[0]
            found.append(entry)
        return found

    def add(self, entries: Iterable[LogEntry], now: float) -> int:
        """Take in what has come; the number of entries that were new."""
        found = self.fresh(entries)
        for entry in found:
            self._count += 1
            heapq.heappush(self._heap, (entry.key, self._count, entry))
            self._arrivals.append((now, entry.key))
        return len(found)

    def ready(self, now: float) -> list[LogEntry]:
        """Entries whose wait is over, and all that belong before them."""
        last: Key | None = None
        while self._arrivals and self._arrivals[0][0] + self._hold <= now:
            key = self._arrivals.popleft()[1]
            last = key if last is None else max(last, key)
        found = []
        while last is not None and self._heap and self._heap[0][0] <= last:
            found.append(heapq.heappop(self._heap)[2])
        if not self._heap:
            self._arrivals.clear()
        return found

    def rest(self) -> list[LogEntry]:
        """Everything that still waits."""
        found = [heapq.heappop(self._heap)[2] for _ in range(len(self._heap))]
        self._arrivals.clear()
        return found

    @property
    def due(self) -> float | None:
        """When `ready` has something next; `None` while nothing waits."""
        return self._arrivals[0][0] + self._hold if self._arrivals else None
