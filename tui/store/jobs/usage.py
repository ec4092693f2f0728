"""Recent GPU and CPU utilization of the visible jobs, read a few jobs at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from tui.backends.errors import BackendError
from tui.domain.core.job import Job
from tui.domain.core.metric import CPU, GPU
from tui.domain.fields.job_row import UsageTrend
from tui.session import Session
from tui.store.job.series import SeriesStore, buckets

FAN_OUT = 4
"""Number of jobs whose series are read at the same time."""
BARS = 6
LATE = timedelta(minutes=6)
"""Maximum delay of cloud samples (docs/facts/vertex.md 6.3)."""
KEPT = 500
"""Number of jobs whose figures are stored."""


class UsageFeed:
    """Usage of the jobs in view. Run `run` while the list is visible; it never raises `BackendError`.

    `jobs` returns the active jobs in view; `on_change` receives the names of the jobs with new figures. A job
    that can't be read has no figures, which differs from zero.
    """

    def __init__(
        self, session: Session, jobs: Callable[[], Sequence[Job]], on_change: Callable[[Sequence[str]], None]
    ) -> None:
        self._session = session
        self._jobs = jobs
        self._on_change = on_change
        self._series: dict[str, SeriesStore] = {}
        self._due: dict[str, float] = {}
        """Monotonic time of each job's next read."""
        self._slots = asyncio.Semaphore(FAN_OUT)
        local = session.backend.info.local
        self._look = 2.0 if local else 5.0
        self._every = 5.0 if local else 60.0
        self.span = BARS * (timedelta(seconds=10) if local else timedelta(seconds=90))

    async def run(self) -> None:
        """Read until cancelled."""
        if not self._session.backend.offers("metrics"):
            return
        while True:
            await self.read_due()
            await asyncio.sleep(self._look)

    async def read_due(self) -> None:
        """Read the jobs that are due."""
        now = self._session.clock()
        at = self._session.monotonic()
        due = [job for job in self._jobs() if job.runner and at >= self._due.get(job.name, 0.0)]
        if not due:
            return
        self._forget({job.name for job in due})
        changes = await asyncio.gather(*(self._read(job, now) for job in due))
        names = [job.name for job, new in zip(due, changes, strict=True) if new]
        if names:
            self._on_change(names)

    def course(self, name: str, metric: str) -> UsageTrend:
        """Return the mean over the job's replicas, or over their accelerators."""
        series = self._series.get(name)
        if series is None:
            return UsageTrend()
        end = self._session.clock()
        matches = series.of(metric)
        rows = [buckets(s.points, end, self.span, BARS) for s in matches]
        shares = tuple(_mean([row[at] for row in rows]) for at in range(BARS)) if rows else ()
        latest = next((share for share in reversed(shares) if share is not None), None)
        return UsageTrend(shares, latest, any(s.simulated for s in matches))

    async def _read(self, job: Job, now: datetime) -> bool:
        due = self._session.monotonic() + self._every
        async with self._slots:
            since = now - self.span - LATE
            try:
                reading = await self._session.backend.metrics.read(
                    job.runner, since=since, metrics=(GPU, CPU)
                )
            except BackendError:
                # Retry at the next due time; the job's own screen shows the error.
                self._due[job.name] = due
                return False
        self._due[job.name] = due
        self._series.setdefault(job.name, SeriesStore()).add(reading)
        return True

    def _forget(self, needed: set[str]) -> None:
        if len(self._series) > KEPT:
            for name in [name for name in self._series if name not in needed]:
                del self._series[name]
                self._due.pop(name, None)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
