"""All jobs in memory, each change on disk first; the one place where a job's resource is altered."""

from __future__ import annotations

import asyncio
import bisect
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from google.cloud.aiplatform_v1.types import job_state
from google.protobuf import timestamp_pb2

from tui.emulator.database import Control, Database, JobRow, Pb, created_us
from tui.emulator.interfaces import CustomJobPb, JobRecord

T = TypeVar("T")
State = job_state.JobState
TERMINAL = frozenset(
    {
        State.JOB_STATE_SUCCEEDED,
        State.JOB_STATE_FAILED,
        State.JOB_STATE_CANCELLED,
        State.JOB_STATE_EXPIRED,
        State.JOB_STATE_PARTIALLY_SUCCEEDED,
    }
)
"""States that no job leaves (vertex facts 1.10)."""

Key = tuple[int, int]
"""(create_time in µs, id): what lists are ordered and paged by."""


def timestamp(seconds: float) -> timestamp_pb2.Timestamp:
    """Microsecond precision, as the service's own times have."""
    us = round(seconds * 1_000_000)
    return timestamp_pb2.Timestamp(seconds=us // 1_000_000, nanos=us % 1_000_000 * 1000)


@dataclass(eq=False, slots=True)
class Job:
    """A job that exists. `pb` is never altered in place: every change puts a new message there."""

    record: JobRecord
    pb: Pb
    control: Control
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def key(self) -> Key:
        return created_us(self.pb), int(self.record.id)

    @property
    def terminal(self) -> bool:
        return self.pb.state in TERMINAL


class JobTable:
    """Jobs by id, and in the order of their keys."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._jobs: dict[str, Job] = {}
        self._order: list[tuple[Key, Job]] = []
        self._writes: set[asyncio.Task[Any]] = set()

    def load(self, rows: list[JobRow]) -> None:
        """Take what the database had at the start."""
        for row in rows:
            self._add(Job(row.record, row.pb, row.control))

    def get(self, job_id: str) -> Job | None:
        return self._jobs.get(job_id)

    def all(self) -> Iterator[Job]:
        """Every job, oldest first."""
        return (job for _, job in self._order)

    def active(self) -> list[Job]:
        """Jobs that have not ended, oldest first."""
        return [job for _, job in self._order if not job.terminal]

    def counts(self) -> dict[str, int]:
        """Number of jobs by state name, without the common prefix."""
        return dict(Counter(State(job.pb.state).name.removeprefix("JOB_STATE_") for job in self.all()))

    def newest_first(self, before: Key | None = None) -> Iterator[Job]:
        """Jobs with a key below `before`, descending; jobs that come meanwhile do not disturb it."""
        end = len(self._order) if before is None else bisect.bisect_left(self._order, before, key=_key)
        return (job for _, job in reversed(self._order[:end]))

    async def create(self, project: str, location: str, custom_job: Pb) -> Job:
        """Store a new QUEUED job. It is on disk when this returns.

        Raises:
            StorageFull: when it could not be written; then there is no job.
        """
        return await self._finish(self._create(project, location, custom_job))

    async def update(self, job: Job, change: Callable[[Pb], None] | None = None, **control: int) -> None:
        """Apply `change` to a copy of the resource, store it, then show it. `control` sets `Control` fields.

        Raises:
            StorageFull: when it could not be written; then nothing has changed.
        """
        await self._finish(self._update(job, change, control))

    def remove(self, job: Job) -> None:
        """Stop showing a job whose row was deleted."""
        del self._jobs[job.record.id]
        del self._order[bisect.bisect_left(self._order, job.key, key=_key)]

    async def settle(self) -> None:
        """Wait for the writes under way."""
        await asyncio.gather(*self._writes, return_exceptions=True)

    async def _finish(self, write: Coroutine[Any, Any, T]) -> T:
        # A caller that hangs up must not leave disk and memory disagreeing: the write goes on.
        task = asyncio.ensure_future(write)
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        return await asyncio.shield(task)

    async def _create(self, project: str, location: str, custom_job: Pb) -> Job:
        number = await self._database.next_id()
        record = JobRecord(project, location, str(number))
        pb = CustomJobPb(
            name=record.name,
            display_name=custom_job.display_name,
            job_spec=custom_job.job_spec,
            labels=custom_job.labels,
            state=State.JOB_STATE_QUEUED,
        )
        if custom_job.HasField("encryption_spec"):
            pb.encryption_spec.CopyFrom(custom_job.encryption_spec)
        now = timestamp(time.time())
        pb.create_time.CopyFrom(now)
        pb.update_time.CopyFrom(now)
        job = Job(record, pb, Control())
        await self._database.save_job(record, pb, job.control)
        self._add(job)
        return job

    async def _update(self, job: Job, change: Callable[[Pb], None] | None, control: dict[str, int]) -> None:
        async with job.lock:
            pb = CustomJobPb()
            pb.CopyFrom(job.pb)
            if change is not None:
                change(pb)
                pb.update_time.CopyFrom(timestamp(time.time()))
            # Only declared counters come here; `replace` refuses any other name.
            new: Control = replace(job.control, **control)
            await self._database.save_job(job.record, pb, new)
            job.pb, job.control = pb, new
            if job.terminal:
                job.ended.set()

    def _add(self, job: Job) -> None:
        self._jobs[job.record.id] = job
        bisect.insort(self._order, (job.key, job), key=_key)
        if job.pb.state == State.JOB_STATE_CANCELLING:
            job.cancelled.set()
        if job.terminal:
            job.ended.set()


def _key(item: tuple[Key, Job]) -> Key:
    return item[0]
