"""Reads the parts of jobs, such as tasks and trials, that a list leaves out. Each job costs a call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime

from tui.backends.interface import BackendError, JobPage
from tui.domain.core.job import Job

AT_ONCE = 8
"""Number of jobs read at the same time."""
MOST_READ = 50
"""Number of ended jobs whose parts are read for one listing. Others are read when they are opened."""
STALE = 20.0
"""Seconds after which the parts of an active job are read again although its `update_time` is unchanged. The
API documentation does not promise that a change of a part updates it."""


@dataclass(frozen=True, slots=True)
class _Read:
    """A job with its parts, and the time of reading (monotonic seconds)."""

    job: Job
    update_time: datetime | None
    at: float


class UnlistedParts:
    """Adds parts to listed jobs. `get` reads one job."""

    def __init__(self, get: Callable[[str], Awaitable[Job]]) -> None:
        self._get = get
        self._known: dict[str, _Read] = {}

    async def added(self, pages: AsyncGenerator[JobPage, None]) -> AsyncGenerator[JobPage, None]:
        """Yield the pages, their jobs with parts."""
        async with aclosing(pages):
            async for page in pages:
                for name in page.gone:
                    self._known.pop(name, None)
                yield replace(page, jobs=await self._complete(page.jobs)) if page.jobs else page

    async def parent_of(self, job: Job, pages: AsyncGenerator[JobPage, None]) -> Job | None:
        """Return the job in `pages` that started this custom job."""
        created = job.create_time
        assert created is not None
        async with aclosing(pages):
            async for page in pages:
                active = [run for run in page.jobs if run.end_time is None or run.end_time >= created]
                for run in await self._complete(active):
                    if any(job.name in task.jobs for task in run.tasks):
                        return run
        return None

    async def _complete(self, jobs: Sequence[Job]) -> tuple[Job, ...]:
        """Return these jobs with their parts; as listed if the parts can't be read now."""
        due = [job for job in jobs if self._is_due(job)]
        # Newest first, as in a list.
        ended = [job for job in due if job.state.terminal][:MOST_READ]
        gate = asyncio.Semaphore(AT_ONCE)

        async def read(job: Job) -> None:
            async with gate:
                try:
                    whole = await self._get(job.name)
                except BackendError:
                    # The next listing tries again. This listing was answered.
                    return
                self._known[job.name] = _Read(whole, job.update_time, time.monotonic())

        await asyncio.gather(*map(read, [*ended, *(job for job in due if not job.state.terminal)]))
        return tuple(self._newer_of(job) for job in jobs)

    def _is_due(self, job: Job) -> bool:
        if job.tasks:
            return False
        known = self._known.get(job.name)
        if known is None or known.update_time != job.update_time:
            return True
        return job.state.active and time.monotonic() - known.at > STALE

    def _newer_of(self, job: Job) -> Job:
        known = self._known.get(job.name)
        return known.job if known is not None and not job.tasks else job
