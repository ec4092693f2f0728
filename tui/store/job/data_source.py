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

    def silent_for(self, at: float) -> timedelta | None:
        """Time from the last word of a silent source to `at` (monotonic); `None` of one that is not."""
        if self.heartbeat is None or self.read_at is None or self.done:
            return None
        quiet = timedelta(seconds=at - self.heard_at)
        return quiet if quiet > self.heartbeat else None
