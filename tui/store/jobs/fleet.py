"""The figures of all running jobs, polled while the fleet is visible, a few jobs at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from tui.backends.interface import BackendError
from tui.domain.core.job import Job
from tui.domain.core.metric import CPU, GPU, GPU_MEMORY, MEMORY
from tui.domain.core.states import AT_WORK
from tui.kinds.registry import kind_of
from tui.session import Session
from tui.store.job.figures import JobFigures, Measure

FAN_OUT = 6
"""Number of jobs whose series are read at the same time."""
FIRST_LOOK = timedelta(minutes=10)
"""Period that the first read of a job covers; only the newest figures count."""
OVERLAP_LOCAL = timedelta(seconds=20)
OVERLAP_CLOUD = timedelta(minutes=6)
"""Overlap of reads: cloud samples arrive up to five minutes late (docs/facts/vertex.md 6.3)."""
LINES_LOCAL, LINES_CLOUD = 2.0, 15.0
SERIES_LOCAL, SERIES_CLOUD = 2.0, 60.0
"""Seconds between reads. The cloud allows 60 log reads a minute per project; samples are minutely."""
LOG = "live figures"


def at_work(jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs that have machines now, oldest first."""
    working = [job for job in jobs if job.state in AT_WORK and job.runs_itself]
    measured = [job for job in working if kind_of(job).has("metrics")]
    return sorted(measured, key=lambda job: (job.create_time is None, job.create_time, job.name))


class FleetFeed:
    """Figures of the running jobs. Run `run` while the fleet is visible; its data remains when it is
    cancelled.

    `jobs` returns the jobs to read; `on_change` runs after each round. `errors` maps a job's display name or
    `LOG` to the error of a failed read, which is retried.
    """

    def __init__(
        self,
        session: Session,
        jobs: Callable[[], Sequence[Job]],
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.session = session
        self.measure = Measure.UTILIZATION
        self.figures: dict[str, JobFigures] = {}
        self.errors: dict[str, BackendError] = {}
        self.read_at: datetime | None = None
        self._jobs = jobs
        self._on_change = on_change
        self._lines_at: float | None = None
        self._series_at: dict[tuple[str, str], float] = {}
        """Monotonic time of the last read, by job and metric."""
        self._slots = asyncio.Semaphore(FAN_OUT)
        self._kick = asyncio.Event()

    def of(self, job: Job) -> JobFigures:
        """Return the figures of one job; empty before the first read."""
        return self.figures.get(job.name) or JobFigures()

    def show(self, measure: Measure) -> None:
        """Read the metrics of this measure from now on."""
        self.measure = measure
        self._kick.set()

    def kick(self) -> None:
        """Read everything now."""
        self._lines_at = None
        self._series_at.clear()
        self._kick.set()

    async def run(self) -> None:
        """Read until cancelled. Failures of the service are retried, never raised."""
        every = LINES_LOCAL if self.session.backend.info.local else LINES_CLOUD
        while True:
            self._kick.clear()
            await self.read_once()
            try:
                async with asyncio.timeout(every):
                    await self._kick.wait()
            except TimeoutError:
                continue

    async def read_once(self) -> None:
        """Run one round: read the lines of all jobs together, and the series that are due."""
        jobs = list(self._jobs())
        known = {job.name for job in jobs}
        self.figures = {job.name: self.figures.get(job.name) or JobFigures() for job in jobs}
        self._series_at = {key: at for key, at in self._series_at.items() if key[0] in known}
        names = {job.display_name for job in jobs} | {LOG}
        self.errors = {name: error for name, error in self.errors.items() if name in names}
        read = await asyncio.gather(self._read_lines(jobs), *(self._read_series(job) for job in jobs))
        if any(read) or not self.errors:
            self.read_at = self.session.clock()
        self._on_change()

    async def _read_lines(self, jobs: Sequence[Job]) -> bool:
        """Read the lines if they are due; return False if they are not."""
        backend, at = self.session.backend, self.session.monotonic()
        every = LINES_LOCAL if backend.info.local else LINES_CLOUD
        last = self._lines_at
        if not backend.offers("telemetry") or (last is not None and at - last < every / 2):
            return False
        overlap = OVERLAP_LOCAL if backend.info.local else 4 * timedelta(seconds=LINES_CLOUD)
        running = {job.name: job.as_runner() for job in jobs if job.runner}
        try:
            lines = await backend.telemetry.read([*running.values()], self._since(last, overlap))
        except BackendError as error:
            self.errors[LOG] = error
            return False
        self.errors.pop(LOG, None)
        self._lines_at = at
        # In a cluster a job's id is its name, which jobs of other namespaces may share.
        names = {runner.id: name for name, runner in running.items()}
        names |= {runner.name: name for name, runner in running.items()}
        by_job: dict[str, list[int]] = {}
        for at, line in enumerate(lines):
            by_job.setdefault(names.get(line.job_id, ""), []).append(at)
        for name, these in by_job.items():
            if name in self.figures:
                self.figures[name].add_lines([lines[at] for at in these])
        return True

    async def _read_series(self, job: Job) -> bool:
        """Read the series of a job that are due. Return whether any was read."""
        backend, now = self.session.backend, self.session.monotonic()
        local = backend.info.local
        every = SERIES_LOCAL if local else SERIES_CLOUD
        last = {metric: self._series_at.get((job.name, metric)) for metric in wanted(job, self.measure)}
        due = [m for m, at in last.items() if at is None or now - at >= every * 0.9]
        if not due or not job.runner or not backend.offers("metrics"):
            return False
        overlap = OVERLAP_LOCAL if local else OVERLAP_CLOUD
        seen = [at for m in due if (at := last[m]) is not None]
        since = self._since(min(seen) if len(seen) == len(due) else None, overlap)
        async with self._slots:
            try:
                reading = await backend.metrics.read(job.runner, since=since, metrics=due)
            except BackendError as error:
                self.errors[job.display_name] = error
                return False
        self.errors.pop(job.display_name, None)
        self._series_at.update({(job.name, metric): now for metric in due})
        if job.name in self.figures:
            self.figures[job.name].add_reading(reading, local=local)
        return True

    def _since(self, last: float | None, overlap: timedelta) -> datetime:
        """Return the start of the next read after the read at `last` (s, monotonic)."""
        if last is None:
            return self.session.clock() - FIRST_LOOK
        return self.session.clock() - timedelta(seconds=self.session.monotonic() - last) - overlap


def wanted(job: Job, measure: Measure) -> list[str]:
    """Return the metrics that a measure needs of a job. Machines without accelerators use their CPU."""
    if measure is Measure.LAG:
        return []
    if measure is Measure.CPU:
        return [CPU]
    some = any(group.accelerator_count for group in job.groups if group.replicas)
    rest = any(not group.accelerator_count for group in job.groups if group.replicas)
    of_gpu, of_machine = (GPU, CPU) if measure is Measure.UTILIZATION else (GPU_MEMORY, MEMORY)
    return [of_gpu] * some + [of_machine] * rest
