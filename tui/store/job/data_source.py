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
    error: BackendError | None = None
    failing_since: datetime | None = None
    done: bool = False
    """Nothing more can come, e.g. the log of an ended job."""
    failures: int = 0
    note: str = ""
    """How it is read, where that is not the usual way, e.g. polled and not streamed; from outside."""
    heartbeat: timedelta | None = None
    """After so long without a word the source is silent, as its service says at least that it is there."""

    def silent_for(self, now: datetime) -> timedelta | None:
        """Time since the last word of a silent source; `None` of one that is not."""
        if self.heartbeat is None or self.read_at is None or self.done:
            return None
        quiet = now - self.read_at
        return quiet if quiet > self.heartbeat else None
