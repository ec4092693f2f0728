"""JobService for hyperparameter tuning jobs: create, get, list, cancel, delete.

A list has no trials (docs/facts/vertex.md 10.3). Vertex does not document the following behaviour, so the
emulator chooses it: cancelling an ended job and deleting a running job are FAILED_PRECONDITION; deleting a
job does not delete the custom jobs of its trials.
"""

from __future__ import annotations

from google.cloud.aiplatform_v1.types import job_service

from tui.emulator.messages import Pb
from tui.emulator.resources.known import PersistentResources
from tui.emulator.rpc.methods import refuse
from tui.emulator.tuning.table import TuningJob, TuningJobPb, TuningJobRecord, TuningJobTable
from tui.emulator.tuning.tuning_runs import TuningParts, TuningRuns
from tui.emulator.tuning.validate import tuning_problems
from tui.emulator.vertex.filter_fields import CUSTOM_JOB_FIELDS
from tui.emulator.vertex.job_handlers import EmulatedKind, JobHandlers, JobRunner, JobType
from tui.emulator.vertex.job_service import SERVICE
from tui.emulator.vertex.operations import Operations
from tui.emulator.vertex.resource_requests import creation_parent


class TuningServer(JobHandlers[TuningJob]):
    """RPC handlers of tuning jobs."""

    TYPE = JobType(
        SERVICE, job_service, "HyperparameterTuningJob", "job", TuningJobPb, TuningJobRecord.COLLECTION,
        CUSTOM_JOB_FIELDS, unlisted=("trials",),
    )  # fmt: skip

    def __init__(
        self,
        table: TuningJobTable,
        runner: JobRunner[TuningJob],
        operations: Operations,
        resources: PersistentResources,
    ) -> None:
        super().__init__(table, runner, operations)
        self._table, self._resources = table, resources

    def check(self, request: Pb) -> None:
        _, location = creation_parent(request.parent)
        requested = request.hyperparameter_tuning_job
        refuse(tuning_problems(requested, location))
        self._resources.check(
            requested.trial_job_spec, request.parent, "hyperparameter_tuning_job.trial_job_spec"
        )


TUNING_JOBS = EmulatedKind(
    TuningJobTable,
    lambda parts, table: TuningServer(
        table,
        TuningRuns(TuningParts(table, parts.jobs, parts.scheduler, parts.state, parts.sink)),
        parts.operations,
        parts.persistent,
    ),
)
