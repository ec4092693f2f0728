"""The state of one source of a job's data: the time of its last read, and the reason why it is unreadable
now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tui.backends.interface import BackendError


@dataclass(slots=True)
class DataSource:
    """One source of a job's data: the time of its last read, and the reason why it is unreadable now."""

    name: str
    read_at: datetime | None = None
    heard_at: float = 0.0
    """Time of the last read, in seconds of the monotonic clock."""
    began_at: float | None = None
    """Time of the first read after the start or after an error, in seconds of the monotonic clock."""
    error: BackendError | None = None
    failing_since: datetime | None = None
    listed_at: datetime | None = None
    """Time at which another source, e.g. a list, delivered the data shown until the first read."""
    done: bool = False
    """Whether no more data can arrive, e.g. for the log of an ended job."""
    failures: int = 0
    note: str = ""
    """Unusual method of reading the source, e.g. polled instead of streamed. The reader sets the note."""
    heartbeat: timedelta | None = None
    """Silence after which the source counts as silent; the service sends heartbeats more often."""

    def heard(self, now: datetime, at: float) -> None:
        """Record a read at `now` and at `at` (monotonic)."""
        self.read_at, self.heard_at = now, at
        if self.began_at is None:
            self.began_at = at

    def as_of(self, now: datetime) -> datetime:
        """Return `now`, or the time of the last read while the source cannot be read."""
        if self.read_at is None:
            return self.listed_at or self.failing_since or now
        return now if self.error is None else self.read_at

    def current_for(self, at: float) -> float:
        """Return the seconds for which the source has been read without an error or a silence."""
        if self.began_at is None or self.error is not None or self.silent_for(at) is not None:
            return 0.0
        return at - self.began_at

    def silent_for(self, at: float) -> timedelta | None:
        """Return the time from the last read to `at` (monotonic); `None` if the source is not silent."""
        if self.heartbeat is None or self.read_at is None or self.done:
            return None
        quiet = timedelta(seconds=at - self.heard_at)
        return quiet if quiet > self.heartbeat else None
