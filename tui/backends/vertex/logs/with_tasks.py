"""The log of a job together with those of its tasks' jobs, as of a tuning job and its trials.

All of them are one filter: a list or a stream of ten trials costs what one of a single job does. While the
log is followed, jobs of new tasks come up; then the stream is opened anew with a longer filter, and the lists
around it go back to the start of the new tasks. What they bring twice is dropped by its key.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice

from tui.backends.interface import BackendError, LogBatch, LogQuery
from tui.backends.vertex.logs.filters import job_id
from tui.backends.vertex.logs.reader import Get, LogReader
from tui.backends.vertex.logs.tail import LogTail
from tui.domain.core.job import Job
from tui.domain.core.log_entry import SERVICE, LogEntry
from tui.domain.core.replica import of_task

MOST_JOBS = 500
"""Jobs of tasks in a filter, the newest: it may have 20,000 characters (docs/facts/vertex.md 5.3)."""
WATCH = 5
"""A look for new tasks for so many looks at the state of a job: 10 s apart in the cloud."""
KEPT = 50_000
"""Keys of delivered entries that are remembered."""

Tasks = Mapping[str, str]
"""The id of the task by the full name of its job."""


class TasksChanged(Exception):
    """Jobs of new tasks have come up while a log was followed."""

    def __init__(self, job: Job) -> None:
        super().__init__("new tasks")
        self.job = job


class TasksLog:
    """One query of a job with its tasks. `replicas` of the query may be ids of tasks, and the service."""

    def __init__(
        self,
        query: LogQuery,
        get: Get,
        reader: LogReader,
        open_tail: Callable[[LogQuery], LogTail],
        look: float,
    ) -> None:
        """`look` are the seconds between two looks at the state of a job."""
        self._query, self._get, self._reader, self._open_tail = query, get, reader, open_tail
        self._every = WATCH * look
        self._delivered: dict[tuple[object, ...], None] = {}

    async def read(
        self, *, newest_first: bool = False, limit: int | None = None
    ) -> AsyncGenerator[LogBatch, None]:
        """Stored entries, a page at a time."""
        job = await self._get(self._query.job_name)
        tasks = self._tasks(job)
        query = self._of(tasks, self._query.received)
        note = self._left_out(job)
        async for batch in self._reader.read(query, newest_first=newest_first, limit=limit):
            yield replace(batch, entries=self._named(batch.entries, tasks), note=note or batch.note)
            note = ""

    async def follow(self) -> AsyncGenerator[LogBatch, None]:
        """Batches until the job has ended and nothing new was found."""
        job = await self._get(self._query.job_name)
        tasks, received = self._tasks(job), self._query.received
        note = self._left_out(job)
        while True:
            tail = self._open_tail(self._of(tasks, received))
            watching = asyncio.create_task(self._watch(tail, tasks))
            try:
                async for batch in tail.follow():
                    received = batch.received or received
                    fresh = self._fresh(self._named(batch.entries, tasks))
                    yield replace(batch, entries=fresh, note=note or batch.note)
                    note = ""
            except TasksChanged as change:
                job = change.job
            else:
                job = await self._get(self._query.job_name)
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
            new = self._tasks(job)
            if not new.keys() - tasks.keys():
                return
            received = self._before(job, new.keys() - tasks.keys(), received)
            tasks = new

    def _of(self, tasks: Tasks, received: datetime | None) -> LogQuery:
        """The query of all these jobs."""
        return replace(self._query, tasks=False, replicas=(), jobs=tuple(tasks), received=received)

    def _tasks(self, job: Job) -> Tasks:
        """The tasks that are asked for and have jobs, the newest of them."""
        found = {name: task.id for task in job.tasks if self._wanted(task.id) for name in task.jobs}
        return dict(islice(found.items(), max(0, len(found) - MOST_JOBS), None))

    def _wanted(self, task: str) -> bool:
        return not self._query.replicas or task in self._query.replicas

    def _left_out(self, job: Job) -> str:
        """What a reader has to know of the tasks that there are too many of."""
        count = sum(len(task.jobs) for task in job.tasks if self._wanted(task.id))
        return f"only the newest {MOST_JOBS} of {count:,} jobs of its parts" if count > MOST_JOBS else ""

    def _named(self, entries: Iterable[LogEntry], tasks: Tasks) -> tuple[LogEntry, ...]:
        """The entries with the task in the replica's name."""
        ids = {job_id(name): task for name, task in tasks.items()}
        own = self._wanted(SERVICE)
        found = ((entry, ids.get(entry.job_id)) for entry in entries)
        return tuple(
            entry if task is None else replace(entry, replica=of_task(task, entry.replica))
            for entry, task in found
            if task is not None or own
        )

    def _fresh(self, entries: Iterable[LogEntry]) -> tuple[LogEntry, ...]:
        found = tuple(entry for entry in entries if entry.key not in self._delivered)
        self._delivered |= dict.fromkeys(entry.key for entry in found)
        for key in [*islice(self._delivered, max(0, len(self._delivered) - KEPT))]:
            del self._delivered[key]
        return found

    async def _watch(self, tail: LogTail, tasks: Tasks) -> None:
        """Interrupt the tail when there are jobs of other tasks."""
        while True:
            await asyncio.sleep(self._every)
            with contextlib.suppress(BackendError):
                job = await self._get(self._query.job_name)
                if self._tasks(job).keys() - tasks.keys():
                    await tail.interrupt(TasksChanged(job))
                    return

    def _before(self, job: Job, new: Iterable[str], received: datetime | None) -> datetime | None:
        """Time of receipt from which on the entries of these jobs have to be read, and the rest of others."""
        if received is None:
            return None
        names, late = set(new), timedelta(seconds=2 * self._every)
        starts = [task.start_time for task in job.tasks if names & set(task.jobs)]
        known = [start for start in starts if start is not None]
        # The service's clock is not the one of this machine.
        lower = min(known) if len(known) == len(starts) else datetime.now(UTC) - late
        return min(received, lower - late)
