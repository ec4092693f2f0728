"""The log of a job together with the logs of its tasks' jobs, e.g. of a tuning job and its trials.

One filter selects all jobs: a list or a stream of ten trials costs as much as that of a single job. When jobs
of new tasks appear while the log is followed, the stream is reopened with a longer filter, and its lists go
back to the start of the new tasks. Repeated entries are dropped by their keys.
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
"""Maximum number of task jobs in a filter; the newest jobs are used. A filter may have at most 20,000
characters (docs/facts/vertex.md 5.3)."""
WATCH = 5
"""Number of reads of a job's state for each search for new tasks. In the cloud, this is one search every 10
s."""
KEPT = 50_000
"""Number of stored keys of delivered entries."""

Tasks = Mapping[str, str]
"""Ids of tasks by the full names of their jobs."""


class TasksChanged(Exception):
    """Jobs of new tasks appeared while a log was followed."""

    def __init__(self, job: Job) -> None:
        super().__init__("new tasks")
        self.job = job


class TasksLog:
    """One query of a job with its tasks. `replicas` of the query may name tasks and the service."""

    def __init__(
        self,
        query: LogQuery,
        get: Get,
        reader: LogReader,
        open_tail: Callable[[LogQuery], LogTail],
        look: float,
    ) -> None:
        """Set the query. `look` is the interval in seconds between reads of a job's state."""
        self._query, self._get, self._reader, self._open_tail = query, get, reader, open_tail
        self._every = WATCH * look
        self._delivered: dict[tuple[object, ...], None] = {}

    async def read(
        self, *, newest_first: bool = False, limit: int | None = None
    ) -> AsyncGenerator[LogBatch, None]:
        """Yield stored entries in pages."""
        job = await self._get(self._query.job_name)
        tasks = self._tasks(job)
        query = self._of(tasks, self._query.received)
        note = self._left_out(job)
        async for batch in self._reader.read(query, newest_first=newest_first, limit=limit):
            yield replace(batch, entries=self._named(batch.entries, tasks), note=note or batch.note)
            note = ""

    async def follow(self) -> AsyncGenerator[LogBatch, None]:
        """Yield batches until the job has ended and no new entry was found."""
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
        """Return the query of all these jobs."""
        return replace(self._query, tasks=False, replicas=(), jobs=tuple(tasks), received=received)

    def _tasks(self, job: Job) -> Tasks:
        tasks = {name: task.id for task in job.tasks if self._selects(task.id) for name in task.jobs}
        return dict(islice(tasks.items(), max(0, len(tasks) - MOST_JOBS), None))

    def _selects(self, task: str) -> bool:
        return not self._query.replicas or task in self._query.replicas

    def _left_out(self, job: Job) -> str:
        """Return the note on tasks that are left out because there are too many."""
        count = sum(len(task.jobs) for task in job.tasks if self._selects(task.id))
        return f"only the newest {MOST_JOBS} of the {count:,} jobs of its parts" if count > MOST_JOBS else ""

    def _named(self, entries: Iterable[LogEntry], tasks: Tasks) -> tuple[LogEntry, ...]:
        """Return the entries with the task in the replica's name."""
        ids = {job_id(name): task for name, task in tasks.items()}
        own = self._selects(SERVICE)
        entries_and_tasks = ((entry, ids.get(entry.job_id)) for entry in entries)
        return tuple(
            entry if task is None else replace(entry, replica=of_task(task, entry.replica))
            for entry, task in entries_and_tasks
            if task is not None or own
        )

    def _fresh(self, entries: Iterable[LogEntry]) -> tuple[LogEntry, ...]:
        fresh = tuple(entry for entry in entries if entry.key not in self._delivered)
        self._delivered |= dict.fromkeys(entry.key for entry in fresh)
        for key in [*islice(self._delivered, max(0, len(self._delivered) - KEPT))]:
            del self._delivered[key]
        return fresh

    async def _watch(self, tail: LogTail, tasks: Tasks) -> None:
        """Interrupt the tail when jobs of other tasks appear."""
        while True:
            await asyncio.sleep(self._every)
            with contextlib.suppress(BackendError):
                job = await self._get(self._query.job_name)
                if self._tasks(job).keys() - tasks.keys():
                    await tail.interrupt(TasksChanged(job))
                    return

    def _before(self, job: Job, new: Iterable[str], received: datetime | None) -> datetime | None:
        """Return the receive time from which the entries of new jobs, and the remaining entries of the other
        jobs, must be read."""
        if received is None:
            return None
        names, late = set(new), timedelta(seconds=2 * self._every)
        starts = [task.start_time for task in job.tasks if names & set(task.jobs)]
        known = [start for start in starts if start is not None]
        # The service's clock may differ from the clock of this machine.
        lower = min(known) if len(known) == len(starts) else datetime.now(UTC) - late
        return min(received, lower - late)
