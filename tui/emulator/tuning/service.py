"""JobService for hyperparameter tuning jobs: create, get, list, cancel, delete.

A list has no trials (vertex facts 10.3). Chosen here, not documented for Vertex: cancelling an ended job and
deleting one that has not ended are FAILED_PRECONDITION; deleting one leaves the custom jobs of its trials.
"""

from __future__ import annotations

from typing import Any, Protocol

from google.cloud.aiplatform_v1.types import job_service
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2

from tui.emulator.database import Pb
from tui.emulator.interfaces import TuningJobPb, TuningJobRecord
from tui.emulator.resources.known import PersistentResources
from tui.emulator.rpc.methods import Method, failed_precondition, invalid
from tui.emulator.rpc.paging import keep_only, mask_fields
from tui.emulator.tuning.table import TuningJob, TuningJobTable
from tui.emulator.tuning.validate import tuning_problems
from tui.emulator.vertex.filter_fields import CUSTOM_JOB_FIELDS
from tui.emulator.vertex.job_service import SERVICE
from tui.emulator.vertex.job_table import State
from tui.emulator.vertex.operations import TUNING_JOB_KIND, Operations
from tui.emulator.vertex.resource_requests import creation_parent, find, list_page

ListResponsePb = job_service.ListHyperparameterTuningJobsResponse.pb()


class TuningRunner(Protocol):
    """The part of `TuningJobs` that this service uses."""

    def admit(self, job: TuningJob) -> None:
        """Run a new tuning job to its end."""

    async def cancel(self, job: TuningJob) -> None:
        """Request its end; return when the request is stored."""


class TuningServer:
    """Handlers of one emulator. They take and return plain protobuf."""

    def __init__(
        self,
        table: TuningJobTable,
        runner: TuningRunner,
        operations: Operations,
        resources: PersistentResources,
    ) -> None:
        self._table = table
        self._runner = runner
        self._operations = operations
        self._resources = resources

    def methods(self) -> list[Method]:
        """The RPCs served here."""
        types, name = job_service, "HyperparameterTuningJob"
        table: list[tuple[str, Any, Any, Any]] = [
            (f"Create{name}", types.CreateHyperparameterTuningJobRequest, TuningJobPb, self.create),
            (f"Get{name}", types.GetHyperparameterTuningJobRequest, TuningJobPb, self.get),
            (f"List{name}s", types.ListHyperparameterTuningJobsRequest, ListResponsePb, self.list),
            (f"Cancel{name}", types.CancelHyperparameterTuningJobRequest, empty_pb2.Empty, self.cancel),
            (
                f"Delete{name}",
                types.DeleteHyperparameterTuningJobRequest,
                operations_pb2.Operation,
                self.delete,
            ),
        ]
        return [Method(SERVICE, rpc, req.pb(), res, handler) for rpc, req, res, handler in table]

    async def create(self, request: Pb) -> Pb:
        """Check, store, admit. The job is on disk before the reply."""
        project, location = creation_parent(request.parent)
        self.check(request)
        job = await self._table.create(project, location, request.hyperparameter_tuning_job)
        self._runner.admit(job)
        return job.pb

    def check(self, request: Pb) -> None:
        """Refuse the creation of a job that could not run. Raises WireError."""
        _, location = creation_parent(request.parent)
        requested = request.hyperparameter_tuning_job
        problems = tuning_problems(requested, location)
        if problems:
            raise invalid(*problems)
        self._resources.check(
            requested.trial_job_spec, request.parent, "hyperparameter_tuning_job.trial_job_spec"
        )

    async def get(self, request: Pb) -> Pb:
        return self._find(request.name).pb

    async def list(self, request: Pb) -> Pb:
        fields = mask_fields(request.read_mask.paths, TuningJobPb.DESCRIPTOR)
        page, token = list_page(self._table, request, CUSTOM_JOB_FIELDS)
        reply = ListResponsePb(hyperparameter_tuning_jobs=[job.pb for job in page], next_page_token=token)
        for job in reply.hyperparameter_tuning_jobs:
            job.ClearField("trials")
        keep_only(reply.hyperparameter_tuning_jobs, fields)
        return reply

    async def cancel(self, request: Pb) -> empty_pb2.Empty:
        job = self._find(request.name)
        if job.terminal:
            name, state = job.record.name, State(job.pb.state).name
            raise failed_precondition(name, f"The job {name} has ended ({state}); it can't be cancelled.")
        await self._runner.cancel(job)
        return empty_pb2.Empty()

    async def delete(self, request: Pb) -> operations_pb2.Operation:
        job = self._find(request.name)
        if not job.terminal:
            name, state = job.record.name, State(job.pb.state).name
            raise failed_precondition(
                name, f"The job {name} is in {state}; cancel it and wait for its end, then delete it."
            )
        return await self._operations.delete_tuning_job(self._table, job)

    def _find(self, name: str) -> TuningJob:
        return find(self._table, TuningJobRecord.COLLECTION, TUNING_JOB_KIND, name)
