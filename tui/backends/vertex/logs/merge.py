"""Merges sources into one log: each entry once, in order. The module does no I/O; `now` is in seconds of any
clock."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from datetime import datetime, timedelta

from tui.domain.core.log_entry import LogEntry

Key = tuple[datetime, int, str, str]
GENERATION = timedelta(seconds=2)
"""Range of receive times of the keys of one generation, which expire together."""
MOST = 4_000_000
"""Maximum number of stored keys, whatever `forget` allows: five minutes at 13,000 lines/s."""


class _Generation:
    """Hashed keys of entries that were received one after another.

    A hash has 64 bits: two of a million keys are equal with a probability of one in 40 million. Full keys
    would take five times the memory.
    """

    __slots__ = ("first", "keys", "last")

    def __init__(self, at: datetime) -> None:
        self.first = self.last = at
        """Range of receive times."""
        self.keys: set[int] = set()


class LogMerger:
    """Collects entries in order of arrival and returns them in key order.

    An entry waits `hold` seconds for older entries. An older entry that arrives later is delivered out of
    order, after its own wait. An entry with a known key is dropped until `forget` removes the key.
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
        """Number of stored keys."""
        return sum(len(generation.keys) for generation in self._generations)

    def fresh(self, entries: Iterable[LogEntry], received: datetime | None = None) -> list[LogEntry]:
        """Mark ordered entries as seen and return the new entries.

        `received` is the newest receive time of these entries, if known.
        """
        new, keys = [], set[int]()
        newest = self.newest
        hashed = [(hash(entry.key), entry) for entry in entries]
        hashes = {key for key, _ in hashed}
        known = set().union(*(generation.keys & hashes for generation in self._generations))
        for key, entry in hashed:
            if key in keys or key in known:
                continue
            keys.add(key)
            if newest is None or entry.timestamp > newest:
                newest = entry.timestamp
            new.append(entry)
        if newest is not None and keys:
            self.newest = newest
            self._remember(keys, received or newest)
        return new

    def _remember(self, keys: set[int], received: datetime) -> None:
        last = self._generations[-1] if self._generations else None
        if last is None or received - last.first > GENERATION or len(last.keys) > MOST // 40:
            # An earlier time joins the current generation, which then expires later.
            last = _Generation(received)
            self._generations.append(last)
        last.keys |= keys
        last.last = max(last.last, received)
        while self.remembered > MOST and len(self._generations) > 1:
            self._generations.popleft()

    def forget(self, before: datetime) -> None:
        """Drop keys received before this time, because the service does not deliver those entries again."""
        while len(self._generations) > 1 and self._generations[0].last < before:
            self._generations.popleft()

    def add(self, entries: Iterable[LogEntry], now: float, received: datetime | None = None) -> int:
        """Add entries. Return the number of new entries."""
        new = self.fresh(entries, received)
        if new:
            keyed = [(entry.key, entry) for entry in new]
            self._waiting += keyed
            self._sorted = False
            self._arrivals.append((now, max(keyed, key=_key)[0]))
        return len(new)

    def ready(self, now: float) -> list[LogEntry]:
        """Remove and return the entries whose wait is over, and all entries that precede them."""
        last: Key | None = None
        while self._arrivals and self._arrivals[0][0] + self._hold <= now:
            key = self._arrivals.popleft()[1]
            last = key if last is None else max(last, key)
        if last is None:
            return []
        self._sort()
        due = self._waiting[: bisect_right(self._waiting, last, key=_key)]
        del self._waiting[: len(due)]
        if not self._waiting:
            self._arrivals.clear()
        return [entry for _, entry in due]

    def rest(self) -> list[LogEntry]:
        """Remove and return all waiting entries."""
        self._sort()
        waiting = [entry for _, entry in self._waiting]
        self._waiting.clear()
        self._arrivals.clear()
        return waiting

    @property
    def due(self) -> float | None:
        """Time at which `ready` may next return entries; `None` while no entry waits."""
        return self._arrivals[0][0] + self._hold if self._arrivals else None

    def _sort(self) -> None:
        # On nearly sorted input, this sort is far cheaper than a heap.
        if not self._sorted:
            self._waiting.sort(key=_key)
            self._sorted = True


def _key(waiting: tuple[Key, LogEntry]) -> Key:
    return waiting[0]
