"""Time since a job's end, unaffected by changes of the wall clock."""

from __future__ import annotations

from datetime import datetime

from tui.domain.core.job import Job


class SinceEnd:
    """Seconds since one job's end; times of the monotonic clock are in seconds."""

    def __init__(self) -> None:
        self._seen_unended = False
        self._ended_at: float | None = None
        """Monotonic time of the job's end, which may precede the first observation of the job."""

    def look(self, job: Job) -> None:
        """Observe the job. The end of a job that still runs is later than this observation."""
        self._seen_unended = self._seen_unended or not job.state.terminal

    def seconds(self, job: Job, now: datetime, at: float) -> float:
        """Return the seconds from the end of the ended `job` to `at` (monotonic). The time of day, `now`,
        counts only for an end before the first observation."""
        if self._ended_at is None:
            before = now - (job.end_time or now)
            self._ended_at = at - (0.0 if self._seen_unended else max(0.0, before.total_seconds()))
        return at - self._ended_at
