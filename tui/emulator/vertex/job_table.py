"""All custom jobs in memory; each change is stored on disk first."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from google.cloud.aiplatform_v1.types import job_state

from tui.emulator.database import Change, created_us
from tui.emulator.interfaces import CustomJobPb, JobRecord
from tui.emulator.messages import Pb, copied, current_time, set_created
from tui.emulator.vertex.resource_table import CancellableResource, ResourceTable

State = job_state.JobState
TERMINAL: frozenset[int] = frozenset(
    {
        State.JOB_STATE_SUCCEEDED,
        State.JOB_STATE_FAILED,
        State.JOB_STATE_CANCELLED,
        State.JOB_STATE_EXPIRED,
        State.JOB_STATE_PARTIALLY_SUCCEEDED,
    }
)
"""Terminal states (docs/facts/vertex.md 1.10)."""


@dataclass(frozen=True, slots=True)
class Control:
    """The scheduler's state of a job, stored beside its resource.

    `attempt` counts from 1. `preemptions` and `crashes` count the restarts by cause. `port` and `ports` are
    the block of ports that the attempt uses (0, 0 for none). `events` is the number of the attempt's runner
    events that are already in the log.
    """

    attempt: int = 1
    preemptions: int = 0
    crashes: int = 0
    port: int = 0
    ports: int = 0
    events: int = 0


@dataclass(eq=False, slots=True)
class CustomJob(CancellableResource):
    """A stored custom job.

    `changed` is set at the next change of the job and then replaced: take the event before you read the job,
    and you miss no change.
    """

    record: JobRecord
    control: Control
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    TERMINAL = TERMINAL
    CANCELLING = State.JOB_STATE_CANCELLING


class CustomJobTable(ResourceTable[CustomJob]):
    """Custom jobs by id and in list order."""

    TABLE, BODY, PB = "jobs", "job", CustomJobPb

    def _read(self, db: sqlite3.Connection) -> Iterator[CustomJob]:
        rows = db.execute(
            "SELECT id, project, location, job, attempt, preemptions, crashes, port, ports, events FROM jobs"
        )
        for id, project, location, body, *control in rows:
            yield CustomJob(
                JobRecord(project, location, str(id)), CustomJobPb.FromString(body), Control(*control)
            )

    def custom_job_of(self, resource: CustomJob) -> CustomJob:
        return resource

    def counts(self) -> dict[str, int]:
        """Number of jobs by state name, without the common prefix."""
        return dict(Counter(State(job.pb.state).name.removeprefix("JOB_STATE_") for job in self.all()))

    async def create(self, project: str, location: str, custom_job: Pb) -> CustomJob:
        """Store a new QUEUED job. It is on disk when this returns.

        Raises:
            StorageFull: when it could not be written; the job then does not exist.
        """
        return await self.finish(self._create(project, location, custom_job))

    async def update(
        self, job: CustomJob, change: Callable[[Pb], None] | None = None, **control: int
    ) -> None:
        """Apply `change` to a copy of the resource, store it, then show it. `control` sets `Control` fields.

        Raises:
            StorageFull: when it could not be written; then nothing has changed.
        """
        await self.finish(self._update(job, change, control))

    async def _create(self, project: str, location: str, custom_job: Pb) -> CustomJob:
        job, change = await self.prepare(project, location, custom_job)
        await self._database.write(change.write)
        change.show()
        return job

    async def prepare(self, project: str, location: str, custom_job: Pb) -> tuple[CustomJob, Change]:
        """Make a new QUEUED job, to be stored together with other changes.

        Raises:
            StorageFull: when no number could be stored.
        """
        number = await self._database.next_id()
        job = new_job(JobRecord(project, location, str(number)), custom_job)
        return job, self.addition(job)

    def addition(self, job: CustomJob) -> Change:
        """Add a new job together with other writes."""
        return Change(lambda db: put_job(db, job.record, job.pb, job.control), lambda: self.add(job))

    async def _update(
        self, job: CustomJob, change: Callable[[Pb], None] | None, control: dict[str, int]
    ) -> None:
        async with job.lock:
            pb = copied(job.pb)
            if change is not None:
                change(pb)
                pb.update_time.CopyFrom(current_time())
            if pb.state != State.JOB_STATE_RUNNING:
                # Only running replicas have shells and dashboards.
                pb.web_access_uris.clear()
            # Callers pass counters of `Control` only; `replace` refuses any other name.
            new: Control = replace(job.control, **control)
            await self._database.write(lambda db: put_job(db, job.record, pb, new))
            job.control = new
            job.show(pb)
            job.changed.set()
            job.changed = asyncio.Event()


def new_job(record: JobRecord, custom_job: Pb) -> CustomJob:
    """Make a QUEUED job from the input fields of `custom_job`, without storing it."""
    pb = CustomJobPb(
        name=record.name,
        display_name=custom_job.display_name,
        job_spec=custom_job.job_spec,
        labels=custom_job.labels,
        state=State.JOB_STATE_QUEUED,
    )
    if custom_job.HasField("encryption_spec"):
        pb.encryption_spec.CopyFrom(custom_job.encryption_spec)
    set_created(pb)
    return CustomJob(record, pb, Control())


def put_job(db: sqlite3.Connection, record: JobRecord, pb: Pb, control: Control) -> None:
    """Insert or replace one job in the transaction of `db`."""
    values = (
        int(record.id), record.project, record.location, created_us(pb), pb.state,
        pb.SerializeToString(), control.attempt, control.preemptions, control.crashes,
        control.port, control.ports, control.events,
    )  # fmt: skip
    db.execute(f"INSERT OR REPLACE INTO jobs VALUES ({','.join('?' * len(values))})", values)
