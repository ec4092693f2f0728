"""JobService for custom jobs: create, get, list, cancel, delete.

Any project and location is accepted and appears in names as the client wrote it. An extension: the location
`-` in a list's parent means every location of the project (AIP-159).
"""

from __future__ import annotations

from collections.abc import Callable

from google.cloud.aiplatform_v1.types import job_service
from google.longrunning import operations_pb2
from google.rpc import code_pb2

from tui.emulator.interfaces import CustomJobPb, JobRecord
from tui.emulator.messages import Pb
from tui.emulator.parts import EmulatorParts
from tui.emulator.rpc.methods import WireError, refuse
from tui.emulator.vertex.filter_fields import CUSTOM_JOB_FIELDS
from tui.emulator.vertex.job_handlers import EmulatedKind, JobHandlers, JobRunner, JobType
from tui.emulator.vertex.job_table import CustomJob, CustomJobTable
from tui.emulator.vertex.operations import Operations
from tui.emulator.vertex.quota import demand
from tui.emulator.vertex.resource_requests import creation_parent
from tui.emulator.vertex.validate import job_problems

SERVICE = "google.cloud.aiplatform.v1.JobService"

CheckResource = Callable[[Pb, str, str], None]
"""A function that refuses a job spec that its persistent resource can't run. Arguments: spec, parent of the
request, path of the spec."""

CheckQuota = Callable[[str, Pb], str]
"""A function that returns the refusal of a job in a region for lack of quota, or ""."""


class JobServer(JobHandlers[CustomJob]):
    """Handlers for custom jobs."""

    TYPE = JobType(
        SERVICE, job_service, "CustomJob", "job", CustomJobPb, JobRecord.COLLECTION, CUSTOM_JOB_FIELDS
    )

    def __init__(
        self,
        table: CustomJobTable,
        runner: JobRunner[CustomJob],
        operations: Operations,
        check_resource: CheckResource,
        check_quota: CheckQuota,
    ) -> None:
        super().__init__(table, runner, operations)
        self._table, self._check_resource, self._check_quota = table, check_resource, check_quota

    def check(self, request: Pb) -> None:
        _, location = creation_parent(request.parent)
        refuse(job_problems(request.custom_job, location))
        self._check_resource(request.custom_job.job_spec, request.parent, "job_spec")
        message = self._check_quota(location, request.custom_job)
        if message:
            raise WireError(code_pb2.RESOURCE_EXHAUSTED, message)

    async def _delete(self, job: CustomJob) -> operations_pb2.Operation:
        return await self._operations.delete_job(self._table, job)


def _handlers(parts: EmulatorParts, table: CustomJobTable) -> JobServer:
    def check_quota(region: str, job: Pb) -> str:
        return parts.quotas.refusal(region, job) or parts.running.scarcity.quota_error(demand(job))

    return JobServer(table, parts.scheduler, parts.operations, parts.persistent.check, check_quota)


CUSTOM_JOBS = EmulatedKind(CustomJobTable, _handlers)
