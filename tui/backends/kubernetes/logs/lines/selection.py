"""Selects the entries of a query. The module does no I/O."""

from __future__ import annotations

from datetime import datetime

from tui.backends.interface import LogQuery
from tui.backends.kubernetes.logs.lines.stamped import stamp_at
from tui.domain.core.log_entry import SERVICE, LogEntry


class Selection:
    """The filters of a query: replicas, text, times."""

    def __init__(self, query: LogQuery) -> None:
        self._query = query
        self._text = query.text.casefold()
        self._since = None if query.since is None else stamp_at(query.since)

    @property
    def service(self) -> bool:
        """Whether the query selects entries of the service itself."""
        query = self._query
        return SERVICE in query.replicas if query.replicas else query.include_service

    @property
    def begin(self) -> int | None:
        """The node time (ns) before which nothing is selected."""
        times = [time for time in (self._query.since, self._query.received) if time is not None]
        return stamp_at(max(times)) if times else None

    @property
    def until(self) -> datetime | None:
        """The time by the entries' own clock after which no entry is selected."""
        return self._query.until

    def has_replica(self, replica: str) -> bool:
        """Return whether the query selects entries of the replica."""
        return not self._query.replicas or replica in self._query.replicas

    def has(self, entry: LogEntry, stamp: int | None = None) -> bool:
        """Return whether the query selects the entry; `stamp` is the node's time of receipt, if known."""
        query = self._query
        if query.until is not None and entry.timestamp > query.until:
            return False
        if self._text and self._text not in entry.message.casefold():
            return False
        if query.since is None or entry.timestamp >= query.since:
            return True
        return self._since is not None and stamp is not None and stamp >= self._since
