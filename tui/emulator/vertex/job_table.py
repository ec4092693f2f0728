"""Custom jobs in memory; each change is written to disk first."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from google.cloud.aiplatform_v1.types import job_state

from tui.emulator.database import created_us
from tui.emulator.interfaces import CustomJobPb, JobRecord
from tui.emulator.messages import Pb, copied, current_time
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
    the block of ports that the attempt uses (0; 0 means none). `events` is the number of the attempt's runner
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

    `changed` is set at the next change of the job and then replaced. Get the event before reading the job to
    miss no change.
    """

    record: JobRecord
    control: Control
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    TERMINAL = TERMINAL
    CANCELLING = State.JOB_STATE_CANCELLING


class CustomJobTable(ResourceTable[CustomJob]):
    """Custom jobs by id and in list order."""

    TABLE, BODY, PB, RECORD = "jobs", "job", CustomJobPb, JobRecord
    EXTRA = ("attempt", "preemptions", "crashes", "port", "ports", "events")
    INPUTS = frozenset({"display_name", "job_spec", "labels", "encryption_spec"})
    INITIAL = State.JOB_STATE_QUEUED

    def _restored(self, record: JobRecord, pb: Pb, *extra: int) -> CustomJob:
        return CustomJob(record, pb, Control(*extra))

    def _columns(self, job: CustomJob) -> dict[str, Any]:
        return _columns(job.pb, job.control)

    def custom_job_of(self, resource: CustomJob) -> CustomJob:
        return resource

    def counts(self) -> dict[str, int]:
        """Return the number of jobs by state name, without the common prefix."""
        return dict(Counter(State(job.pb.state).name.removeprefix("JOB_STATE_") for job in self.all()))

    async def update(
        self, job: CustomJob, change: Callable[[Pb], None] | None = None, **control: int
    ) -> None:
        """Apply `change` to a copy of the resource, store it, then show it. `control` sets `Control` fields.

        Raises StorageFull when the write failed; then nothing has changed.
        """
        await self._database.finish(self._update_with(job, change, control))

    async def _update_with(
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
            await self._database.write(lambda db: self.put(db, job.record, pb, _columns(pb, new)))
            job.control = new
            job.show(pb)
            job.changed.set()
            job.changed = asyncio.Event()


def _columns(pb: Pb, control: Control) -> dict[str, Any]:
    return {"created": created_us(pb), "state": pb.state, **asdict(control)}
