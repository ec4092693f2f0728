"""PipelineService: cancel or delete several pipeline jobs with one long-running operation.

A cancellation skips ended jobs and is done when the others have ended; a deletion deletes all jobs or none.
After a restart of the emulator, a cancellation continues. Vertex does not document the following behaviour,
so the emulator chooses it: errors in a request are refused immediately, not by the operation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from google.cloud.aiplatform_v1.types import operation as operation_types
from google.cloud.aiplatform_v1.types import pipeline_job as pipeline_job_types
from google.cloud.aiplatform_v1.types import pipeline_service as types
from google.longrunning import operations_pb2

from tui.emulator.database import NOTHING, StorageFull
from tui.emulator.messages import Pb
from tui.emulator.pipelines.service import SERVICE, PipelineServer
from tui.emulator.pipelines.table import PipelineJob, PipelineTable, State
from tui.emulator.rpc.methods import Method, WireError, failed_precondition, invalid, methods_of
from tui.emulator.vertex.job_handlers import JobRunner
from tui.emulator.vertex.operations import Operations, RunningOperation, Work
from tui.emulator.vertex.resource_requests import creation_parent

LARGEST_BATCH = 32
_Cancelled = types.BatchCancelPipelineJobsResponse.pb()
_Job = pipeline_job_types.PipelineJob.pb()
_Deleted = types.BatchDeletePipelineJobsResponse.pb()
_CancelMetadata = types.BatchCancelPipelineJobsOperationMetadata.pb()
_DeleteMetadata = operation_types.DeleteOperationMetadata.pb()


class PipelineBatches:
    """RPC handlers of batch cancel and batch delete."""

    def __init__(
        self,
        server: PipelineServer,
        table: PipelineTable,
        runner: JobRunner[PipelineJob],
        operations: Operations,
    ) -> None:
        self._server, self._table, self._runner, self._operations = server, table, runner, operations

    def methods(self) -> list[Method]:
        """Return the RPCs of this service."""
        reply = operations_pb2.Operation
        return methods_of(
            SERVICE,
            types,
            ("BatchCancelPipelineJobs", self.cancel, reply),
            ("BatchDeletePipelineJobs", self.delete, reply),
        )

    async def cancel(self, request: Pb) -> operations_pb2.Operation:
        jobs = [job for job in self._jobs(request) if not job.terminal]
        plan = _Cancelled(pipeline_jobs=[_Job(name=job.record.name) for job in jobs])
        work = self._cancelling(jobs)
        return await self._operations.start(request.parent, _CancelMetadata(), work, plan=plan)

    def adopt(self) -> None:
        """Continue the cancellations of the previous server."""
        for name in self._operations.interrupted(_CancelMetadata()):
            plan = self._operations.plan(name, _Cancelled())
            ids = [job.name.rpartition("/")[2] for job in plan.pipeline_jobs]
            jobs = [job for job in map(self._table.get, ids) if job is not None]
            self._operations.resume(name, self._cancelling(jobs))

    def _cancelling(self, jobs: Sequence[PipelineJob]) -> Work:
        async def work(running: RunningOperation) -> None:
            for job in jobs:
                try:
                    await self._runner.cancel(job)
                except StorageFull:
                    raise
                except WireError:
                    # The job has just ended.
                    continue
            for job in jobs:
                await job.ended.wait()
            await running.end(_Cancelled(pipeline_jobs=[job.pb for job in jobs]), NOTHING)

        return work

    async def delete(self, request: Pb) -> operations_pb2.Operation:
        jobs = self._jobs(request)

        async def work(running: RunningOperation) -> None:
            async with contextlib.AsyncExitStack() as stack:
                # Lock in a fixed order, so that two batches can't wait for each other.
                for job in sorted(jobs, key=lambda job: job.number):
                    await stack.enter_async_context(job.lock)
                for job in jobs:
                    self._server.find(job.record.name)
                    if not job.terminal:
                        name, state = job.record.name, State(job.pb.state).name
                        raise failed_precondition(
                            name, f"The pipeline {name} is in {state}; none of the batch was deleted."
                        )
                reply = _Deleted(pipeline_jobs=[job.pb for job in jobs])
                await running.end(reply, self._table.deletion(*jobs))

        return await self._operations.start(request.parent, _DeleteMetadata(), work)

    def _jobs(self, request: Pb) -> list[PipelineJob]:
        """Return the jobs that a request names, without duplicates. Raises WireError."""
        project, location = creation_parent(request.parent)
        names = list(dict.fromkeys(request.names))
        if not 1 <= len(names) <= LARGEST_BATCH:
            raise invalid(("names", f"must be 1 to {LARGEST_BATCH} pipeline jobs, not {len(names)}"))
        jobs = [self._server.find(name) for name in names]
        other = next((job for job in jobs if not job.record.is_in(project, location)), None)
        if other is not None:
            raise invalid(("names", f"{other.record.name!r} must be below the parent {request.parent}"))
        return jobs
