"""PipelineService for pipeline jobs: create, get, list, cancel, delete.

Chosen here, not documented for Vertex: cancelling an ended job and deleting one that has not ended are
FAILED_PRECONDITION; deleting one leaves the custom jobs of its tasks; an id is unique in the whole emulator.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import yaml
from google.cloud.aiplatform_v1.types import pipeline_service
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2, json_format
from google.rpc import code_pb2

from tui.domain.pipeline.ir import BadPipeline, Pipeline, read_pipeline
from tui.domain.profile.source import dotted
from tui.emulator.database import Pb
from tui.emulator.faults import clock
from tui.emulator.paths import StateDir
from tui.emulator.pipelines.planner import BadInput, Context, plan
from tui.emulator.pipelines.table import PipelineJob, PipelineJobPb, PipelineRecord, PipelineTable, State
from tui.emulator.rpc.methods import Method, WireError, failed_precondition, invalid
from tui.emulator.rpc.page_token import read_token, write_token
from tui.emulator.rpc.paging import keep_only, mask_fields, page_size, query_digest
from tui.emulator.vertex.filter_fields import PIPELINE_JOB_FIELDS
from tui.emulator.vertex.operations import Operations
from tui.emulator.vertex.resource_requests import creation_parent, find, list_page, matching
from tui.emulator.vertex.training_pipeline_service import SERVICE
from tui.emulator.vertex.validate import resource_problems

KIND = "aiplatform.googleapis.com/PipelineJob"
ListResponsePb = pipeline_service.ListPipelineJobsResponse.pb()
_ID = re.compile(r"[a-z0-9]([a-z0-9-]{0,126}[a-z0-9])?")
_ORDERS = ("create_time", "update_time", "end_time", "start_time")
LARGEST_TEMPLATE = 10_000_000


class PipelineRunner(Protocol):
    """The part of `PipelineRuns` that this service uses."""

    def admit(self, job: PipelineJob) -> None:
        """Run a new pipeline job to its end."""

    async def cancel(self, job: PipelineJob) -> None:
        """Request its end; return when the request is stored."""


class PipelineServer:
    """Handlers of one emulator. They take and return plain protobuf."""

    def __init__(
        self, table: PipelineTable, runner: PipelineRunner, operations: Operations, state: StateDir
    ) -> None:
        self._table = table
        self._runner = runner
        self._operations = operations
        self._state = state

    def methods(self) -> list[Method]:
        """The RPCs served here."""
        types = pipeline_service
        table: list[tuple[str, Any, Any, Any]] = [
            ("CreatePipelineJob", types.CreatePipelineJobRequest, PipelineJobPb, self.create),
            ("GetPipelineJob", types.GetPipelineJobRequest, PipelineJobPb, self.get),
            ("ListPipelineJobs", types.ListPipelineJobsRequest, ListResponsePb, self.list),
            ("CancelPipelineJob", types.CancelPipelineJobRequest, empty_pb2.Empty, self.cancel),
            ("DeletePipelineJob", types.DeletePipelineJobRequest, operations_pb2.Operation, self.delete),
        ]
        return [Method(SERVICE, rpc, req.pb(), res, handler) for rpc, req, res, handler in table]

    async def create(self, request: Pb) -> Pb:
        """Check, store, admit. The job is on disk before the reply."""
        project, location = creation_parent(request.parent)
        requested = PipelineJobPb()
        requested.CopyFrom(request.pipeline_job)
        if requested.template_uri and not requested.pipeline_spec.fields:
            self._load_template(requested)
        # A pipeline job needs no display name.
        named = requested.display_name or "display_name"
        problems = [each for each in resource_problems(requested, location) if each[0] != named]
        problems += _runtime_problems(requested)
        pipeline = None
        try:
            pipeline = pipeline_of(requested)
        except BadPipeline as error:
            problems += [(f"pipeline_spec.{dotted(where)}", what) for where, what in error.problems]
        if pipeline is not None:
            problems += _value_problems(pipeline, requested)
        if problems:
            raise invalid(*((f"pipeline_job.{where}", what) for where, what in problems))
        assert pipeline is not None
        record = PipelineRecord(project, location, self._new_id(request.pipeline_job_id, pipeline.name))
        job = await self._table.create(record, requested)
        self._runner.admit(job)
        return job.pb

    async def get(self, request: Pb) -> Pb:
        return self._find(request.name).pb

    async def list(self, request: Pb) -> Pb:
        fields = mask_fields(request.read_mask.paths, PipelineJobPb.DESCRIPTOR)
        page, token = (
            self._ordered(request)
            if request.order_by
            else list_page(self._table, request, PIPELINE_JOB_FIELDS)
        )
        reply = ListResponsePb(pipeline_jobs=[job.pb for job in page], next_page_token=token)
        for job in reply.pipeline_jobs:
            # vertex facts 11.3
            job.ClearField("job_detail")
        keep_only(reply.pipeline_jobs, fields)
        return reply

    async def cancel(self, request: Pb) -> empty_pb2.Empty:
        job = self._find(request.name)
        if job.terminal:
            name, state = job.record.name, State(job.pb.state).name
            raise failed_precondition(
                name, f"The pipeline {name} has ended ({state}); it can't be cancelled."
            )
        await self._runner.cancel(job)
        return empty_pb2.Empty()

    async def delete(self, request: Pb) -> operations_pb2.Operation:
        job = self._find(request.name)
        if not job.terminal:
            name, state = job.record.name, State(job.pb.state).name
            raise failed_precondition(
                name, f"The pipeline {name} is in {state}; cancel it and wait for its end, then delete it."
            )
        await self._table.delete(job)
        return await self._operations.done(job.record.project, job.record.location, empty_pb2.Empty())

    def _find(self, name: str) -> PipelineJob:
        return find(self._table, PipelineRecord.COLLECTION, KIND, name)

    def _new_id(self, asked: str, name: str) -> str:
        """The id that was asked for, or one of the pipeline's name and the time."""
        if not asked:
            base = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "pipeline"
            return f"{base[:100]}-{int(clock.time() * 1e6)}"
        if not _ID.fullmatch(asked):
            raise invalid(
                ("pipeline_job_id", f"{asked!r} has other characters than a-z, 0-9 and -, or more than 128")
            )
        if self._table.get(asked) is not None:
            raise WireError(code_pb2.ALREADY_EXISTS, f"There is a pipeline job with the id {asked} already.")
        return asked

    def _load_template(self, requested: Pb) -> None:
        """Read the spec of a template in a bucket of the emulator."""
        uri = requested.template_uri
        path = (self._state.buckets / uri.removeprefix("gs://")).resolve()
        here = self._state.buckets.resolve()
        if not uri.startswith("gs://") or not path.is_relative_to(here) or not path.is_file():
            raise invalid(("pipeline_job.template_uri", f"{uri!r} is no file in a bucket of the emulator"))
        try:
            if path.stat().st_size > LARGEST_TEMPLATE:
                raise ValueError(f"it has more than {LARGEST_TEMPLATE:,} bytes")
            # A second document, with settings of a platform, may follow.
            spec = next(yaml.safe_load_all(path.read_text()))
            json_format.ParseDict({"pipelineSpec": spec}, requested)
        except (OSError, ValueError, yaml.YAMLError, StopIteration, json_format.ParseError) as error:
            raise invalid(("pipeline_job.template_uri", f"{uri} is no compiled pipeline: {error}")) from error

    def _ordered(self, request: Pb) -> tuple[Sequence[PipelineJob], str]:
        """A page in the order that was asked for; its token is a position."""
        field, _, way = request.order_by.strip().partition(" ")
        if field not in _ORDERS or way.strip() not in {"", "desc"}:
            raise invalid(("order_by", f"is one of {', '.join(_ORDERS)}, with desc behind it or without"))
        size = page_size(request.page_size)
        digest = query_digest(request.parent, request.filter, request.order_by)
        start = int((read_token(request.page_token, digest, (int,)) or (0,))[0])
        found = sorted(
            matching(self._table, request, PIPELINE_JOB_FIELDS),
            key=lambda job: (_moment(job.pb, field), job.number),
            reverse=bool(way.strip()),
        )
        page = found[start : start + size]
        more = len(found) > start + size
        return page, write_token((start + size,), digest) if more else ""


def _moment(pb: Pb, field: str) -> tuple[int, int]:
    value = getattr(pb, field)
    return value.seconds, value.nanos


def pipeline_of(pb: Pb) -> Pipeline:
    """The pipeline of a PipelineJob. Raises BadPipeline."""
    spec: Mapping[str, Any] = json_format.MessageToDict(pb.pipeline_spec)
    # A file may wrap the spec in a job, as older compilers wrote it.
    return read_pipeline(spec.get("pipelineSpec") or spec)


def parameter_values(pb: Pb) -> dict[str, Any]:
    """The parameters of a PipelineJob, as plain JSON."""
    return {
        name: json_format.MessageToDict(value) for name, value in pb.runtime_config.parameter_values.items()
    }


def _runtime_problems(pb: Pb) -> list[tuple[str, str]]:
    root = pb.runtime_config.gcs_output_directory
    if not re.fullmatch(r"gs://[a-z0-9][a-z0-9._-]+(/[^\s]*)?", root) or ".." in root:
        return [
            ("runtime_config.gcs_output_directory", f"{root!r} is no folder of a bucket, gs://BUCKET/FOLDER")
        ]
    return []


def _value_problems(pipeline: Pipeline, pb: Pb) -> list[tuple[str, str]]:
    where, given = "runtime_config.parameter_values", parameter_values(pb)
    unknown = [name for name in given if name not in pipeline.root.parameters]
    found = [(f"{where}.{name}", "is no parameter of the pipeline") for name in unknown]
    try:
        plan(Context(pipeline, {}), {name: value for name, value in given.items() if name not in unknown})
    except BadInput as error:
        found.append((where, str(error)))
    return found
