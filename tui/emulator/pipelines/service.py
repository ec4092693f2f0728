"""PipelineService for pipeline jobs: create, get, list, cancel, delete; `batch` has the batches.

Vertex does not document the following behaviour, so the emulator chooses it: cancelling an ended job and
deleting an active job are FAILED_PRECONDITION; deleting a job leaves the custom jobs of its tasks; an id is
unique in the whole emulator.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import yaml
from google.cloud.aiplatform_v1.types import pipeline_service
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2, json_format
from google.rpc import code_pb2

from tui.config.regular_file import read_regular
from tui.domain.document.decoding import decode_yaml
from tui.domain.document.source import dotted
from tui.domain.pipeline.ir import BadPipeline, Pipeline, read_pipeline
from tui.emulator.faults import clock
from tui.emulator.messages import Pb, copied, time_of
from tui.emulator.paths import StateDir
from tui.emulator.pipelines.planner import BadInput, root_inputs
from tui.emulator.pipelines.table import (
    PipelineJob,
    PipelineJobPb,
    PipelineRecord,
    PipelineTable,
    ScheduledRun,
)
from tui.emulator.rpc.methods import WireError, invalid
from tui.emulator.rpc.paging import page_at, page_size, query_digest
from tui.emulator.services.check_faults import ActiveCheckFaults
from tui.emulator.storage.names import InvalidObjectName, file_at, uri_problem
from tui.emulator.vertex.filter_fields import PIPELINE_STATE, derived_text, fields_of, text_field, time_field
from tui.emulator.vertex.job_handlers import JobHandlers, JobRunner, JobType
from tui.emulator.vertex.operations import Operations
from tui.emulator.vertex.resource_requests import creation_parent, matching
from tui.emulator.vertex.validate import resource_problems

_METADATA_PERMISSION = "aiplatform.metadataStores.get"
SERVICE = "google.cloud.aiplatform.v1.PipelineService"
JOB_ID = re.compile(r"[a-z0-9]([a-z0-9-]{0,126}[a-z0-9])?")
_FIELDS = fields_of(
    PIPELINE_STATE,
    template_uri=text_field("template_uri"),
    pipeline_name=derived_text(lambda job: _name_in(job.pipeline_spec)),
    end_time=time_field("end_time"),
    update_time=time_field("update_time"),
    schedule_name=text_field("schedule_name"),
)
"""Fields of ListPipelineJobsRequest.filter without `metadata.*` and `run_as`.

`schedule_name` is not in that docstring, but the SDK filters by it.
"""
_ORDERS = ("create_time", "update_time", "end_time", "start_time")
LARGEST_TEMPLATE = 10_000_000


class PipelineServer(JobHandlers[PipelineJob]):
    """RPC handlers of pipeline jobs."""

    # docs/facts/vertex.md 11.3: a list has no job_detail.
    TYPE = JobType(
        SERVICE, pipeline_service, "PipelineJob", "pipeline", PipelineJobPb, PipelineRecord.COLLECTION,
        _FIELDS, unlisted=("job_detail",),
    )  # fmt: skip

    def __init__(
        self,
        table: PipelineTable,
        runner: JobRunner[PipelineJob],
        operations: Operations,
        state: StateDir,
        checks: ActiveCheckFaults,
    ) -> None:
        super().__init__(table, runner, operations)
        self._table, self._state, self._checks = table, state, checks

    async def create(self, request: Pb) -> Pb:
        """Check the request, store the job and start it. The job is on disk before the reply."""
        requested, pipeline = await asyncio.to_thread(self.checked, request)
        if self._checks.denies(_METADATA_PERMISSION):
            # Vertex AI sends this message (docs/facts/vertex.md 16).
            resource = f"//aiplatform.googleapis.com/{request.parent}/metadataStores/default"
            raise WireError(
                code_pb2.PERMISSION_DENIED,
                f"Failed to create pipeline job. Error: Permission '{_METADATA_PERMISSION}' denied on "
                f"resource '{resource}' (or it may not exist).",
            )
        return await self._create(request.parent, requested, self._new_id(request.pipeline_job_id, pipeline))

    async def get(self, request: Pb) -> Pb:
        return await self._table.with_details(self.find(request.name))

    async def create_scheduled(self, request: Pb, run: ScheduledRun) -> Pb:
        """Create a run of a schedule. The run's id ends in the time of the run."""
        requested, pipeline = await asyncio.to_thread(self.checked, request)
        prefix = request.pipeline_job_id or _id_of(pipeline.name)
        moment = datetime.fromtimestamp(run.time, UTC)
        base = f"{prefix[:100]}-{moment:%Y%m%d%H%M%S}"
        job_id, number = base, 1
        while self._table.get(job_id) is not None:
            number += 1
            job_id = f"{base}-{number}"
        requested.display_name = requested.display_name or job_id
        return await self._create(request.parent, requested, job_id, run)

    async def _create(self, parent: str, requested: Pb, id: str, run: ScheduledRun | None = None) -> Pb:
        record = PipelineRecord(*creation_parent(parent), id)
        job = await self._table.create_named(record, requested, run)
        self.runner.admit(job)
        return job.pb

    def checked(self, request: Pb, where: str = "pipeline_job") -> tuple[Pb, Pipeline]:
        """Return the job that a request creates, with its template's spec. `where` is the field's path.

        Raises WireError: INVALID_ARGUMENT naming each problem.
        """
        _, location = creation_parent(request.parent)
        requested = copied(request.pipeline_job)
        if requested.template_uri and not requested.pipeline_spec.fields:
            self._load_template(requested, where)
        # A pipeline job needs no display name.
        named = requested.display_name or "display_name"
        problems = [problem for problem in resource_problems(requested, location) if problem[0] != named]
        problems += _runtime_problems(requested)
        pipeline = None
        try:
            pipeline = pipeline_of(requested)
        except BadPipeline as error:
            problems += [(f"pipeline_spec.{dotted(field)}", problem) for field, problem in error.problems]
        if pipeline is not None:
            problems += _value_problems(pipeline, requested)
        if problems:
            raise invalid(*((f"{where}.{field}", problem) for field, problem in problems))
        assert pipeline is not None
        return requested, pipeline

    async def _page(self, request: Pb) -> tuple[Sequence[PipelineJob], str]:
        return await (self._ordered(request) if request.order_by else super()._page(request))

    async def _delete(self, job: PipelineJob) -> operations_pb2.Operation:
        await self._table.delete(job)
        return await self._operations.done(job.record.project, job.record.location, empty_pb2.Empty())

    def _new_id(self, job_id: str, pipeline: Pipeline) -> str:
        """Return the requested id, or an id made from the pipeline's name and the time."""
        if not job_id:
            return f"{_id_of(pipeline.name)}-{int(clock.time() * 1e6)}"
        if not JOB_ID.fullmatch(job_id):
            raise invalid(("pipeline_job_id", bad_id(job_id)))
        if self._table.get(job_id) is not None:
            raise WireError(code_pb2.ALREADY_EXISTS, f"The pipeline job {job_id} already exists.")
        return job_id

    def _load_template(self, requested: Pb, where: str) -> None:
        """Read the spec of a template in a bucket of the emulator."""
        uri = requested.template_uri
        try:
            path = file_at(self._state.buckets, uri)
            if not path.is_file():
                raise InvalidObjectName(f"{uri!r} must be a file in a bucket of the emulator")
        except InvalidObjectName as error:
            raise invalid((f"{where}.template_uri", str(error))) from error
        try:
            # A second document with settings of a platform may follow.
            spec = decode_yaml(read_regular(path, LARGEST_TEMPLATE))
            json_format.ParseDict({"pipelineSpec": spec}, requested)
        except (OSError, ValueError, yaml.YAMLError, json_format.ParseError) as error:
            raise invalid((f"{where}.template_uri", f"{uri} must be a compiled pipeline: {error}")) from error

    async def _ordered(self, request: Pb) -> tuple[Sequence[PipelineJob], str]:
        """Return a page in the requested order; its token is a position."""
        field, _, way = request.order_by.strip().partition(" ")
        if field not in _ORDERS or way.strip() not in {"", "desc"}:
            raise invalid(("order_by", f"must be one of {', '.join(_ORDERS)}, optionally followed by desc"))
        digest = query_digest(request.parent, request.filter, request.order_by)
        jobs = sorted(
            await matching(self._table, request, _FIELDS),
            key=lambda job: (time_of(field, job.pb), job.number),
            reverse=bool(way.strip()),
        )
        return page_at(jobs, request.page_token, page_size(request.page_size), digest)


def bad_id(job_id: str) -> str:
    """Describe an id that JOB_ID does not match."""
    return f"{job_id!r} must consist of at most 128 characters a-z, 0-9 and -"


def _id_of(name: str) -> str:
    """Convert a pipeline's name to the beginning of an id."""
    return (re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "pipeline")[:100]


def _name_in(spec: Pb) -> str:
    info = spec.fields["pipelineInfo"].struct_value.fields if "pipelineInfo" in spec.fields else {}
    return str(info["name"].string_value) if "name" in info else ""


def pipeline_of(pb: Pb) -> Pipeline:
    """Return the pipeline of a PipelineJob. Raises BadPipeline."""
    spec: Mapping[str, Any] = json_format.MessageToDict(pb.pipeline_spec)
    # A file may wrap the spec in a job, as older compilers wrote it.
    return read_pipeline(spec.get("pipelineSpec") or spec)


def parameter_values(pb: Pb) -> dict[str, Any]:
    """Return the parameters of a PipelineJob as plain JSON."""
    return {
        name: json_format.MessageToDict(value) for name, value in pb.runtime_config.parameter_values.items()
    }


def _runtime_problems(pb: Pb) -> list[tuple[str, str]]:
    root = pb.runtime_config.gcs_output_directory
    problem = uri_problem(root.rstrip("/"))
    if re.search(r"\s", root):
        problem = f"{root!r} must be a folder of a bucket without white space: gs://BUCKET/FOLDER"
    return [("runtime_config.gcs_output_directory", problem)] if problem else []


def _value_problems(pipeline: Pipeline, pb: Pb) -> list[tuple[str, str]]:
    where, values = "runtime_config.parameter_values", parameter_values(pb)
    unknown = [name for name in values if name not in pipeline.root.parameters]
    problems = [(f"{where}.{name}", "must be a parameter of the pipeline") for name in unknown]
    try:
        root_inputs(pipeline, {name: value for name, value in values.items() if name not in unknown})
    except BadInput as error:
        problems.append((where, str(error)))
    return problems
