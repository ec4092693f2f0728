"""What is known of one stream of facts about a job: when it was last read, and why it can't be read now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tui.backends.interface import BackendError


@dataclass(slots=True)
class DataSource:
    """One stream of facts: when it was last read, and why it can't be read now."""

    name: str
    read_at: datetime | None = None
    heard_at: float = 0.0
    """When it was last read, in seconds of the monotonic clock."""
    error: BackendError | None = None
    failing_since: datetime | None = None
    listed_at: datetime | None = None
    """When another reading, e.g. a list, said what is known until this source has been read."""
    done: bool = False
    """Nothing more can come, e.g. the log of an ended job."""
    failures: int = 0
    note: str = ""
    """How it is read, where that is not the usual way, e.g. polled and not streamed; from outside."""
    heartbeat: timedelta | None = None
    """After so long without a word the source is silent, as its service says at least that it is there."""

    def heard(self, now: datetime, at: float) -> None:
        """It was read at this time of day, and of the monotonic clock."""
        self.read_at, self.heard_at = now, at

    def as_of(self, now: datetime) -> datetime:
        """The moment of its facts: `now`, or while it can't be read the one at which they were read last."""
        if self.read_at is None:
            return self.listed_at or self.failing_since or now
        return now if self.error is None else self.read_at

    def silent_for(self, at: float) -> timedelta | None:
        """Time from the last word of a silent source to `at` (monotonic); `None` of one that is not."""
        if self.heartbeat is None or self.read_at is None or self.done:
            return None
        quiet = timedelta(seconds=at - self.heard_at)
        return quiet if quiet > self.heartbeat else None
