"""How long ago a job ended, whatever becomes of the time of day meanwhile."""

from __future__ import annotations

from datetime import datetime

from tui.domain.core.job import Job


class SinceEnd:
    """Seconds since one job's end; times of the monotonic clock are in seconds."""

    def __init__(self) -> None:
        self._seen_unended = False
        self._ended_at: float | None = None
        """By the monotonic clock; it may lie before the first look."""

    def look(self, job: Job) -> None:
        """Take what the service says now. Once it has said that the job goes on, its end comes later."""
        self._seen_unended = self._seen_unended or not job.state.terminal

    def seconds(self, job: Job, now: datetime, at: float) -> float:
        """Seconds from the end of the ended `job` to `at` (monotonic).

        The time of day, `now`, counts only for an end before the first look.
        """
        if self._ended_at is None:
            before = now - (job.end_time or now)
            self._ended_at = at - (0.0 if self._seen_unended else max(0.0, before.total_seconds()))
        return at - self._ended_at
