"""JobService for custom jobs: create, get, list, cancel, delete.

Any project and location is accepted and appears in names as the client wrote it. An extension: the
location `-` in a list's parent means every location of the project (AIP-159). Chosen here, not documented
for Vertex: cancelling an ended job and deleting one that has not ended are FAILED_PRECONDITION.
"""

from __future__ import annotations

from typing import Any, Protocol

from google.cloud.aiplatform_v1.types import job_service
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2

from tui.emulator.database import Pb
from tui.emulator.interfaces import CustomJobPb, JobRecord
from tui.emulator.resources.known import PersistentResources
from tui.emulator.rpc.methods import Method, failed_precondition, invalid
from tui.emulator.rpc.paging import keep_only, mask_fields
from tui.emulator.vertex.filter_fields import CUSTOM_JOB_FIELDS
from tui.emulator.vertex.job_table import Job, JobTable, State
from tui.emulator.vertex.operations import CUSTOM_JOB_KIND, Operations
from tui.emulator.vertex.resource_requests import creation_parent, find, list_page
from tui.emulator.vertex.validate import job_problems

SERVICE = "google.cloud.aiplatform.v1.JobService"

ListResponsePb = job_service.ListCustomJobsResponse.pb()


class JobRunner(Protocol):
    """The part of the scheduler that this service uses."""

    def admit(self, job: Job) -> None:
        """Run a new or adopted job to its end."""

    async def cancel(self, job: Job) -> None:
        """Request its end; return when the request is stored."""


class JobServer:
    """Handlers of one emulator. They take and return plain protobuf."""

    def __init__(
        self, table: JobTable, runner: JobRunner, operations: Operations, resources: PersistentResources
    ) -> None:
        self._table = table
        self._runner = runner
        self._operations = operations
        self._resources = resources

    def methods(self) -> list[Method]:
        """The RPCs served here."""
        types = job_service
        table: list[tuple[str, Any, Any, Any]] = [
            ("Create", types.CreateCustomJobRequest, CustomJobPb, self.create),
            ("Get", types.GetCustomJobRequest, CustomJobPb, self.get),
            ("Cancel", types.CancelCustomJobRequest, empty_pb2.Empty, self.cancel),
            ("Delete", types.DeleteCustomJobRequest, operations_pb2.Operation, self.delete),
        ]
        found = [Method(SERVICE, f"{verb}CustomJob", req.pb(), res, fn) for verb, req, res, fn in table]
        return [
            *found,
            Method(SERVICE, "ListCustomJobs", types.ListCustomJobsRequest.pb(), ListResponsePb, self.list),
        ]

    async def create(self, request: Pb) -> Pb:
        """Check, store, admit. The job is on disk before the reply."""
        project, location = creation_parent(request.parent)
        problems = job_problems(request.custom_job, location)
        if problems:
            raise invalid(*problems)
        self._resources.check(request.custom_job.job_spec, request.parent, "custom_job.job_spec")
        job = await self._table.create(project, location, request.custom_job)
        self._runner.admit(job)
        return job.pb

    async def get(self, request: Pb) -> Pb:
        return self._find(request.name).pb

    async def list(self, request: Pb) -> Pb:
        fields = mask_fields(request.read_mask.paths, CustomJobPb.DESCRIPTOR)
        page, token = list_page(self._table, request, CUSTOM_JOB_FIELDS)
        reply = ListResponsePb(custom_jobs=[job.pb for job in page], next_page_token=token)
        keep_only(reply.custom_jobs, fields)
        return reply

    async def cancel(self, request: Pb) -> empty_pb2.Empty:
        job = self._find(request.name)
        if job.terminal:
            raise failed_precondition(
                job.record.name,
                f"The job {job.record.name} has ended ({State(job.pb.state).name}); it can't be cancelled.",
            )
        await self._runner.cancel(job)
        return empty_pb2.Empty()

    async def delete(self, request: Pb) -> operations_pb2.Operation:
        job = self._find(request.name)
        if not job.terminal:
            raise failed_precondition(
                job.record.name,
                f"The job {job.record.name} is in {State(job.pb.state).name}; cancel it and wait for its "
                "end, then delete it.",
            )
        return await self._operations.delete_job(job)

    def _find(self, name: str) -> Job:
        return find(self._table, JobRecord.COLLECTION, CUSTOM_JOB_KIND, name)
