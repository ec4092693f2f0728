"""Hyperparameter tuning jobs in memory, with their trials' custom jobs; each change is written to disk
first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.cloud.aiplatform_v1.types import hyperparameter_tuning_job as tuning_job_types

from tui.emulator.database import together
from tui.emulator.interfaces import ResourceRecord
from tui.emulator.messages import Pb
from tui.emulator.vertex.job_table import TERMINAL, CustomJob, State
from tui.emulator.vertex.resource_table import CancellableResource, ResourceTable

TuningJobPb = tuning_job_types.HyperparameterTuningJob.pb()
"""The plain protobuf class of a HyperparameterTuningJob."""


@dataclass(frozen=True, slots=True)
class TuningJobRecord(ResourceRecord):
    """Identity of a hyperparameter tuning job."""

    COLLECTION = "hyperparameterTuningJobs"


@dataclass(eq=False, slots=True)
class TuningJob(CancellableResource):
    """A stored hyperparameter tuning job."""

    record: TuningJobRecord

    TERMINAL = TERMINAL
    CANCELLING = State.JOB_STATE_CANCELLING


class TuningJobTable(ResourceTable[TuningJob]):
    """Tuning jobs by id and in list order."""

    TABLE, BODY, PB, RECORD = "tuning_jobs", "job", TuningJobPb, TuningJobRecord
    INPUTS = frozenset((
        "display_name", "study_spec", "max_trial_count", "parallel_trial_count",
        "max_failed_trial_count", "trial_job_spec", "labels", "encryption_spec",
    ))  # fmt: skip
    INITIAL = State.JOB_STATE_PENDING

    def _restored(self, record: TuningJobRecord, pb: Pb, *extra: Any) -> TuningJob:
        return TuningJob(record, pb)

    async def add_trial(self, job: TuningJob, custom_job: Pb, change: Callable[[Pb, str], None]) -> CustomJob:
        """Store a new custom job together with the change that it makes to the tuning job, both or neither.

        `change` receives the tuning job and the custom job's name. Raises StorageFull when the transaction
        failed.
        """
        return await self._database.finish(self._add_trial(job, custom_job, change))

    async def _add_trial(
        self, job: TuningJob, custom_job: Pb, change: Callable[[Pb, str], None]
    ) -> CustomJob:
        trial_job: CustomJob
        trial_job, addition = await self._jobs.prepare(job.record.project, job.record.location, custom_job)
        async with job.lock:
            replacement = self.replacement(job, lambda pb: change(pb, trial_job.record.name))
            await self._database.make(together(addition, replacement))
        return trial_job
