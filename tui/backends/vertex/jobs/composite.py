"""Jobs whose parts a list leaves out: each job's are read by a call of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tui.backends.interface import BackendError, ContextInfo, JobPage
from tui.backends.vertex.jobs import convert
from tui.backends.vertex.jobs.service import AT_ONCE, VertexJobs
from tui.backends.vertex.transport.channels import Clients
from tui.domain.core.job import Job

MOST_READ = 50
"""Ended jobs whose parts one reading of a list asks for; the others' are read when they are opened."""
STALE = 20.0
"""Seconds after which the parts of an active job are read again where its `update_time` stands still: that
each change of a part moves it is not documented."""


@dataclass(frozen=True, slots=True)
class _Read:
    """A job with its parts, as read at that moment (monotonic seconds)."""

    job: Job
    update_time: datetime | None
    at: float


class CompositeJobs(VertexJobs):
    """Lists jobs with their parts, as far as these are due."""

    def __init__(self, info: ContextInfo, clients: Clients) -> None:
        super().__init__(info, clients)
        self._known: dict[str, _Read] = {}

    def list_all(self, *, filter: str = "") -> AsyncGenerator[JobPage, None]:
        return self._with_parts(super().list_all(filter=filter))

    def changes(self) -> AsyncGenerator[JobPage, None]:
        return self._with_parts(super().changes())

    async def _with_parts(self, pages: AsyncGenerator[JobPage, None]) -> AsyncGenerator[JobPage, None]:
        async with aclosing(pages):
            async for page in pages:
                for name in page.gone:
                    self._known.pop(name, None)
                yield replace(page, jobs=await self._complete(page.jobs)) if page.jobs else page

    async def _complete(self, jobs: Sequence[Job]) -> tuple[Job, ...]:
        """These jobs with their parts; as listed where those can't be read now."""
        due = [job for job in jobs if self._is_due(job)]
        # Newest first, as a list has them.
        ended = [job for job in due if job.state.terminal][:MOST_READ]
        wanted = [*ended, *(job for job in due if not job.state.terminal)]
        gate = asyncio.Semaphore(AT_ONCE)

        async def read(job: Job) -> None:
            async with gate:
                try:
                    found = await self.get(job.name)
                except BackendError:
                    # The next reading asks again; the list itself was answered.
                    return
                self._known[job.name] = _Read(found, job.update_time, time.monotonic())

        await asyncio.gather(*map(read, wanted))
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

    async def parent_of(self, job: Job) -> Job | None:
        """The composite job that started this custom job: one of those that were active at its creation."""
        created = job.create_time
        if job.kind != convert.KIND or created is None:
            return None
        until = f'create_time<="{created.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}"'
        async with aclosing(super().list_all(filter=until)) as pages:
            async for page in pages:
                going = [each for each in page.jobs if each.end_time is None or each.end_time >= created]
                for each in await self._complete(going):
                    if any(job.name in task.jobs for task in each.tasks):
                        return each
        return None
