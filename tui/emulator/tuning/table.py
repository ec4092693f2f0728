"""All hyperparameter tuning jobs in memory, each change on disk first, with the custom jobs that it makes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from google.cloud.aiplatform_v1.types import hyperparameter_tuning_job as tuning_job_types

from tui.emulator.database import Change
from tui.emulator.interfaces import ResourceRecord
from tui.emulator.messages import Pb, copied, current_time, set_created
from tui.emulator.vertex.job_table import TERMINAL, CustomJob, State
from tui.emulator.vertex.resource_table import CancellableResource, ResourceTable

TuningJobPb = tuning_job_types.HyperparameterTuningJob.pb()
"""The plain protobuf class of a HyperparameterTuningJob."""
_INPUT_FIELDS = (
    "display_name", "study_spec", "max_trial_count", "parallel_trial_count", "max_failed_trial_count",
    "trial_job_spec", "labels",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TuningJobRecord(ResourceRecord):
    """Identity of a hyperparameter tuning job."""

    COLLECTION = "hyperparameterTuningJobs"


@dataclass(eq=False, slots=True)
class TuningJob(CancellableResource):
    """A hyperparameter tuning job that exists."""

    record: TuningJobRecord

    TERMINAL = TERMINAL
    CANCELLING = State.JOB_STATE_CANCELLING


class TuningJobTable(ResourceTable[TuningJob]):
    """Tuning jobs by id, and in the order of their keys."""

    TABLE, BODY, PB = "tuning_jobs", "job", TuningJobPb

    def _read(self, db: sqlite3.Connection) -> Iterator[TuningJob]:
        for id, project, location, body in db.execute("SELECT id, project, location, job FROM tuning_jobs"):
            yield TuningJob(TuningJobRecord(project, location, str(id)), TuningJobPb.FromString(body))

    async def create(self, project: str, location: str, requested: Pb) -> TuningJob:
        """Store a new PENDING tuning job. It is on disk when this returns.

        Raises:
            StorageFull: when it could not be written; then there is none.
        """
        return await self.finish(self._create(project, location, requested))

    async def update(self, job: TuningJob, change: Callable[[Pb], None]) -> None:
        """Apply `change` to a copy of the resource, store it, then show it.

        Raises:
            StorageFull: when it could not be written; then nothing has changed.
        """
        await self.finish(self._update(job, change))

    async def add_trial(self, job: TuningJob, custom_job: Pb, change: Callable[[Pb, str], None]) -> CustomJob:
        """Store a new custom job together with the change that it makes to the tuning job.

        `change` gets the tuning job and the custom job's name. Either both are on disk, or neither.

        Raises:
            StorageFull: when they could not be written.
        """
        return await self.finish(self._add_trial(job, custom_job, change))

    async def _create(self, project: str, location: str, requested: Pb) -> TuningJob:
        job, change = await self.prepare(project, location, requested)
        await self._database.write(change.write)
        change.show()
        return job

    async def prepare(self, project: str, location: str, requested: Pb) -> tuple[TuningJob, Change]:
        """A new PENDING tuning job, to be stored together with other changes.

        Raises:
            StorageFull: when no number could be taken.
        """
        record = TuningJobRecord(project, location, str(await self._database.next_id()))
        pb = TuningJobPb(
            name=record.name,
            state=State.JOB_STATE_PENDING,
            **{name: getattr(requested, name) for name in _INPUT_FIELDS},
        )
        if requested.HasField("encryption_spec"):
            pb.encryption_spec.CopyFrom(requested.encryption_spec)
        set_created(pb)
        job = TuningJob(record, pb)
        return job, Change(lambda db: _put(db, record, pb), lambda: self.add(job))

    async def _update(self, job: TuningJob, change: Callable[[Pb], None]) -> None:
        async with job.lock:
            pb = _changed(job.pb, change)
            await self._database.write(lambda db: _put(db, job.record, pb))
            job.show(pb)

    async def _add_trial(
        self, job: TuningJob, custom_job: Pb, change: Callable[[Pb, str], None]
    ) -> CustomJob:
        child: CustomJob
        child, addition = await self._jobs.prepare(job.record.project, job.record.location, custom_job)
        async with job.lock:
            pb = _changed(job.pb, lambda pb: change(pb, child.record.name))

            def write(db: sqlite3.Connection) -> None:
                addition.write(db)
                _put(db, job.record, pb)

            await self._database.write(write)
            addition.show()
            job.pb = pb
        return child


def _changed(pb: Pb, change: Callable[[Pb], None]) -> Pb:
    found = copied(pb)
    change(found)
    found.update_time.CopyFrom(current_time())
    return found


def _put(db: sqlite3.Connection, record: TuningJobRecord, pb: Pb) -> None:
    values = int(record.id), record.project, record.location, pb.SerializeToString()
    db.execute("INSERT OR REPLACE INTO tuning_jobs VALUES (?,?,?,?)", values)
