"""A server of official messages that fails as it is told, for what no emulator should do by itself."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import grpc
from google.cloud.aiplatform_v1.types import custom_job, job_service, job_state
from google.cloud.logging_v2.types import LogEntry
from google.cloud.logging_v2.types import logging as logging_types
from google.cloud.monitoring_v3.types import metric_service
from google.longrunning import operations_pb2
from google.protobuf import any_pb2, empty_pb2
from google.rpc import status_pb2
from grpc import StatusCode

from tui.backends.interface import ContextInfo
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.transport.connect import LOCAL_PACE, Endpoint, Pace, Service
from tui.emulator.filters.evaluate import compile_filter
from tui.emulator.filters.fields import Condition
from tui.emulator.logging.query.fields import ENTRY_FIELDS
from tui.emulator.logging.record import MESSAGE, LogSource, StoredEntry
from tui.emulator.rpc.paging import keep_only, mask_fields
from tui.emulator.vertex.filter_fields import CUSTOM_JOB_FIELDS

CustomJob = custom_job.CustomJob.pb()
State = job_state.JobState
START = datetime.now(UTC).replace(microsecond=0) - timedelta(days=1)
ENDED = {State.JOB_STATE_SUCCEEDED, State.JOB_STATE_FAILED, State.JOB_STATE_CANCELLED}


class Abort(Exception):
    """How a call ends: a status with details."""

    def __init__(self, code: StatusCode, message: str = "as told", *details: Any) -> None:
        super().__init__(message)
        self.code, self.message, self.details = code, message, details


@dataclass
class Fake:
    """One region's service. `before` runs ahead of a method, `after` when it has acted but not answered."""

    calls: Counter[str] = field(default_factory=Counter)
    requests: list[Any] = field(default_factory=list)
    before: dict[str, Callable[[Any], Awaitable[None]]] = field(default_factory=dict)
    after: dict[str, Callable[[Any], Awaitable[None]]] = field(default_factory=dict)
    jobs: dict[str, Any] = field(default_factory=dict)
    entries: list[Any] = field(default_factory=list)
    series: list[Any] = field(default_factory=list)
    tails: list[asyncio.Queue[Any]] = field(default_factory=list)
    deaf: bool = False
    """A stream that is opened waits, and hears nothing, while this holds."""
    operations: list[Any] = field(default_factory=list)

    # What a test does

    def fail(self, method: str, *errors: Abort | None, after: bool = False) -> None:
        """The next calls of `method` end so; `None` lets one through. Then all is well."""
        queue = list(errors)

        async def told(_request: Any) -> None:
            error = queue.pop(0) if queue else None
            if error is not None:
                raise error

        (self.after if after else self.before)[method] = told

    def add_job(self, number: int = 1, region: str = "us-central1", **fields: Any) -> Any:
        name = f"projects/p/locations/{region}/customJobs/{number}"
        fields.setdefault("state", State.JOB_STATE_RUNNING)
        self.jobs[name] = CustomJob(name=name, display_name=f"job-{number}", **fields)
        self.jobs[name].create_time.FromDatetime(START)
        self.jobs[name].start_time.FromDatetime(START)
        return self.jobs[name]

    def end(self, name: str) -> None:
        self.jobs[name].state = State.JOB_STATE_SUCCEEDED

    def write(
        self,
        text: str,
        *,
        at: float,
        replica: str = "workerpool0-0",
        send: bool = True,
        received: float | None = None,
    ) -> Any:
        """Store an entry, and send it to whoever follows."""
        pb = line(text, at=at, replica=replica, received=received)
        self.entries.append(pb)
        if send:
            for tail in self.tails:
                tail.put_nowait(pb)
        return pb

    def cut(self, code: StatusCode = StatusCode.UNAVAILABLE) -> None:
        """AttemptEnd every open tail."""
        for tail in self.tails:
            tail.put_nowait(Abort(code, "cut"))

    # What it serves

    async def create(self, request: Any) -> Any:
        job = CustomJob()
        job.CopyFrom(request.custom_job)
        job.name = f"{request.parent}/customJobs/{len(self.jobs) + 1}"
        job.state = State.JOB_STATE_QUEUED
        self.jobs[job.name] = job
        return job

    async def get(self, request: Any) -> Any:
        if request.name not in self.jobs:
            raise Abort(StatusCode.NOT_FOUND, "no such job")
        return self.jobs[request.name]

    async def list(self, request: Any) -> Any:
        passes = compile_filter(request.filter, CUSTOM_JOB_FIELDS)
        found = [job for job in self.jobs.values() if job.name.startswith(request.parent) and passes(job)]
        start = int(request.page_token or 0)
        stop = start + request.page_size
        fields = mask_fields(request.read_mask.paths, custom_job.CustomJob.pb().DESCRIPTOR)
        token = str(stop) if stop < len(found) else ""
        reply = job_service.ListCustomJobsResponse.pb()(custom_jobs=found[start:stop], next_page_token=token)
        keep_only(reply.custom_jobs, fields)
        return reply

    async def cancel(self, request: Any) -> Any:
        job = await self.get(request)
        if job.state != State.JOB_STATE_RUNNING:
            raise Abort(StatusCode.FAILED_PRECONDITION, "not running")
        job.state = State.JOB_STATE_CANCELLING
        return empty_pb2.Empty()

    async def delete(self, request: Any) -> Any:
        await self.get(request)
        del self.jobs[request.name]
        return operations_pb2.Operation(name="projects/p/operations/1")

    async def operation(self, _request: Any) -> Any:
        if self.operations:
            return self.operations.pop(0)
        done = operations_pb2.Operation(name="projects/p/operations/1", done=True)
        done.response.Pack(empty_pb2.Empty())
        return done

    async def list_entries(self, request: Any) -> Any:
        found = [pb for pb in self.entries if _meets(pb, request.filter)]
        found.sort(key=lambda pb: (pb.timestamp.ToNanoseconds(), pb.insert_id))
        if request.order_by == "timestamp desc":
            found.reverse()
        start = int(request.page_token or 0)
        stop = start + request.page_size
        return logging_types.ListLogEntriesResponse.pb()(
            entries=found[start:stop], next_page_token=str(stop) if stop < len(found) else ""
        )

    async def tail(self, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        await anext(aiter(requests))
        while self.deaf:  # noqa: ASYNC110 - a flag is simpler to set than an event
            await asyncio.sleep(0.01)
        queue: asyncio.Queue[Any] = asyncio.Queue()
        self.tails.append(queue)
        try:
            while True:
                found = await queue.get()
                if isinstance(found, Abort):
                    raise found
                if isinstance(found, LogEntry.pb()):
                    found = logging_types.TailLogEntriesResponse.pb()(entries=[found])
                yield found
        finally:
            self.tails.remove(queue)

    async def list_series(self, _request: Any) -> Any:
        return metric_service.ListTimeSeriesResponse.pb()(time_series=self.series)

    def handlers(self) -> list[grpc.GenericRpcHandler]:
        jobs, logs = job_service, logging_types
        job, listed = custom_job.CustomJob, jobs.ListCustomJobsResponse
        empty, operation = empty_pb2.Empty, operations_pb2.Operation
        return [
            self._service(
                "google.cloud.aiplatform.v1.JobService",
                CreateCustomJob=(jobs.CreateCustomJobRequest.pb(), job.pb(), self.create),
                GetCustomJob=(jobs.GetCustomJobRequest.pb(), job.pb(), self.get),
                ListCustomJobs=(jobs.ListCustomJobsRequest.pb(), listed.pb(), self.list),
                CancelCustomJob=(jobs.CancelCustomJobRequest.pb(), empty, self.cancel),
                DeleteCustomJob=(jobs.DeleteCustomJobRequest.pb(), operation, self.delete),
            ),
            self._service(
                "google.longrunning.Operations",
                GetOperation=(operations_pb2.GetOperationRequest, operation, self.operation),
            ),
            self._service(
                "google.logging.v2.LoggingServiceV2",
                ListLogEntries=(
                    logs.ListLogEntriesRequest.pb(), logs.ListLogEntriesResponse.pb(), self.list_entries,
                ),
                TailLogEntries=(
                    logs.TailLogEntriesRequest.pb(), logs.TailLogEntriesResponse.pb(), self.tail,
                ),
            ),
            self._service(
                "google.monitoring.v3.MetricService",
                ListTimeSeries=(
                    metric_service.ListTimeSeriesRequest.pb(), metric_service.ListTimeSeriesResponse.pb(),
                    self.list_series,
                ),
            ),
        ]  # fmt: skip

    def _service(self, service: str, **methods: Any) -> grpc.GenericRpcHandler:
        found = {}
        for name, (request, response, act) in methods.items():
            stream = name.startswith("Tail")
            make = grpc.stream_stream_rpc_method_handler if stream else grpc.unary_unary_rpc_method_handler
            found[name] = make(
                self._stream(name, act) if stream else self._unary(name, act),
                request_deserializer=request.FromString,
                response_serializer=response.SerializeToString,
            )
        return grpc.method_handlers_generic_handler(service, found)

    def _unary(self, name: str, act: Callable[[Any], Awaitable[Any]]) -> Any:
        async def serve(request: Any, context: Any) -> Any:
            self.calls[name] += 1
            self.requests.append(request)
            try:
                if name in self.before:
                    await self.before[name](request)
                answer = await act(request)
                if name in self.after:
                    await self.after[name](request)
                return answer
            except Abort as error:
                return await _abort(context, error)

        return serve

    def _stream(self, name: str, act: Callable[[Any], AsyncIterator[Any]]) -> Any:
        async def serve(requests: Any, context: Any) -> AsyncIterator[Any]:
            self.calls[name] += 1
            try:
                if name in self.before:
                    await self.before[name](None)
                async for answer in act(requests):
                    yield answer
            except Abort as error:
                await _abort(context, error)

        return serve


async def _abort(context: Any, error: Abort) -> None:
    status = status_pb2.Status(code=error.code.value[0], message=error.message)
    for detail in error.details:
        box = any_pb2.Any()
        box.Pack(detail)
        status.details.append(box)
    trailer = (("grpc-status-details-bin", status.SerializeToString()),)
    await context.abort(error.code, error.message, trailing_metadata=trailer)


def line(
    text: str, *, at: float, replica: str = "workerpool0-0", job: str = "1", received: float | None = None
) -> Any:
    """An entry `at` seconds after the job's start, received so many after it."""
    pb = LogEntry.pb()(insert_id=f"{replica}-{text}", text_payload=text)
    pb.timestamp.FromDatetime(START + timedelta(seconds=at))
    if received is not None:
        pb.receive_timestamp.FromDatetime(START + timedelta(seconds=received))
    pb.resource.type = "ml_job"
    pb.resource.labels.update({"job_id": job, "task_name": replica})
    return pb


def _meets(pb: Any, text: str) -> bool:
    source = LogSource(0, "p", pb.log_name, pb.resource.type, dict(pb.resource.labels))
    times = (pb.timestamp.ToNanoseconds(), pb.receive_timestamp.ToNanoseconds())
    row = (0, times[0], pb.insert_id, int(pb.severity), MESSAGE, pb.SerializeToString(), times[1])
    return _filter(text)(StoredEntry(source, row)) is True


@lru_cache(maxsize=64)
def _filter(text: str) -> Condition[StoredEntry]:
    """The emulator's reading of a filter, which is tested on its own."""
    return compile_filter(text, ENTRY_FIELDS)


class FixedEndpoint(Endpoint):
    """Regions at given addresses; everything else at the first of them."""

    def __init__(self, targets: dict[str, str], pace: Pace = LOCAL_PACE, *, everywhere: bool = False) -> None:
        self.targets = targets
        self.pace = pace
        self.all_regions = everywhere
        self.opened = 0

    def target(self, service: Service, region: str) -> str:
        return self.targets.get(region) or next(iter(self.targets.values()))

    async def open(self) -> None:
        self.opened += 1


@asynccontextmanager
async def serving(fake: Fake, socket: Path | None = None) -> AsyncIterator[str]:
    """`fake` on `socket`, or on one of its own; gives its gRPC target."""
    folder = Path(tempfile.mkdtemp(prefix="vx"))
    socket = socket or folder / "s"
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers(tuple(fake.handlers()))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    try:
        yield f"unix:{socket}"
    finally:
        await server.stop(None)
        shutil.rmtree(folder, ignore_errors=True)


def backend(endpoint: Endpoint, *regions: str) -> VertexBackend:
    """A backend of project `p`, not connected."""
    return VertexBackend(ContextInfo("test", "p", regions or ("us-central1",)), endpoint)


@asynccontextmanager
async def connected(fake: Fake, pace: Pace = LOCAL_PACE) -> AsyncIterator[VertexBackend]:
    """A backend whose one region is `fake`."""
    async with serving(fake) as target, backend(FixedEndpoint({"us-central1": target}, pace)) as found:
        assert isinstance(found, VertexBackend)
        yield found
