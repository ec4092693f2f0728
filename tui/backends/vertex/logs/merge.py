"""Merges sources into one log: each entry once, in order. Pure; `now` is in seconds of any clock."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from datetime import datetime, timedelta

from tui.domain.core.log_entry import LogEntry

Key = tuple[datetime, int, str, str]
GENERATION = timedelta(seconds=2)
"""Seconds of one generation of keys, which expire together."""
MOST = 4_000_000
"""Most keys kept, whatever `forget` allows: five minutes of 13,000 lines a second."""


class _Generation:
    """Hashed keys of entries received one after the other.

    A hash has 64 bits: of a million keys two are the same with a probability of one in 40 million, and
    remembering keys themselves takes five times the memory.
    """

    __slots__ = ("first", "keys", "last")

    def __init__(self, at: datetime) -> None:
        self.first = self.last = at
        """Times of receipt."""
        self.keys: set[int] = set()


class LogMerger:
    """Takes entries in order of arrival and returns them in order of their keys.

    An entry waits `hold` seconds for an older one. One that comes later still is delivered when its own
    wait is over, out of order rather than not at all. An entry whose key was seen before is dropped, until
    `forget` says that it can't come again.
    """

    def __init__(self, hold: float) -> None:
        self._hold = hold
        self._generations: deque[_Generation] = deque()
        self._waiting: list[tuple[Key, LogEntry]] = []
        self._sorted = True
        self._arrivals: deque[tuple[float, Key]] = deque()
        self.newest: datetime | None = None
        """Timestamp of the newest entry seen."""

    @property
    def remembered(self) -> int:
        """How many keys are known."""
        return sum(len(one.keys) for one in self._generations)

    def fresh(self, entries: Iterable[LogEntry], received: datetime | None = None) -> list[LogEntry]:
        """Mark entries as seen and return the new ones; for entries that are already in order.

        `received` is the newest time at which the service received one of them, where it is known.
        """
        found, keys = [], set[int]()
        newest = self.newest
        given = [(hash(entry.key), entry) for entry in entries]
        asked = {key for key, _ in given}
        known = set().union(*(one.keys & asked for one in self._generations))
        for key, entry in given:
            if key in keys or key in known:
                continue
            keys.add(key)
            if newest is None or entry.timestamp > newest:
                newest = entry.timestamp
            found.append(entry)
        if newest is not None and keys:
            self.newest = newest
            self._remember(keys, received or newest)
        return found

    def _remember(self, keys: set[int], received: datetime) -> None:
        last = self._generations[-1] if self._generations else None
        if last is None or received - last.first > GENERATION or len(last.keys) > MOST // 40:
            # An earlier time joins the current generation, which then lives longer.
            last = _Generation(received)
            self._generations.append(last)
        last.keys |= keys
        last.last = max(last.last, received)
        while self.remembered > MOST and len(self._generations) > 1:
            self._generations.popleft()

    def forget(self, before: datetime) -> None:
        """The service delivers nothing again that it received before this time."""
        while len(self._generations) > 1 and self._generations[0].last < before:
            self._generations.popleft()

    def add(self, entries: Iterable[LogEntry], now: float, received: datetime | None = None) -> int:
        """Add entries; returns how many were new."""
        found = self.fresh(entries, received)
        if found:
            made = [(entry.key, entry) for entry in found]
            self._waiting += made
            self._sorted = False
            self._arrivals.append((now, max(made, key=_key)[0]))
        return len(found)

    def ready(self, now: float) -> list[LogEntry]:
        """Entries whose wait is over, and all that precede them."""
        last: Key | None = None
        while self._arrivals and self._arrivals[0][0] + self._hold <= now:
            key = self._arrivals.popleft()[1]
            last = key if last is None else max(last, key)
        if last is None:
            return []
        self._sort()
        found = self._waiting[: bisect_right(self._waiting, last, key=_key)]
        del self._waiting[: len(found)]
        if not self._waiting:
            self._arrivals.clear()
        return [entry for _, entry in found]

    def rest(self) -> list[LogEntry]:
        """All entries that still wait."""
        self._sort()
        found = [entry for _, entry in self._waiting]
        self._waiting.clear()
        self._arrivals.clear()
        return found

    @property
    def due(self) -> float | None:
        """When `ready` may return entries next; `None` while nothing waits."""
        return self._arrivals[0][0] + self._hold if self._arrivals else None

    def _sort(self) -> None:
        # Nearly sorted input makes this sort far cheaper than a heap.
        if not self._sorted:
            self._waiting.sort(key=_key)
            self._sorted = True


def _key(waiting: tuple[Key, LogEntry]) -> Key:
    return waiting[0]
