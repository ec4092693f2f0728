"""Get, list, cancel and delete for every kind of job.

Vertex does not document the deletion of a job that has not ended; the emulator answers FAILED_PRECONDITION.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from google.longrunning import operations_pb2
from google.protobuf import empty_pb2

from tui.emulator.filters.fields import FieldTable
from tui.emulator.interfaces import JobRecord
from tui.emulator.messages import Pb, snake_case
from tui.emulator.parts import EmulatorParts
from tui.emulator.rpc.methods import Method, failed_precondition, message_class, methods_of
from tui.emulator.rpc.paging import keep_only, mask_fields
from tui.emulator.vertex.operations import Operations, log_record
from tui.emulator.vertex.resource_requests import creation_parent, find, list_page
from tui.emulator.vertex.resource_table import R, ResourceTable

R_contra = TypeVar("R_contra", contravariant=True)


class JobRunner(Protocol[R_contra]):
    """Runs the jobs of one kind."""

    def adopt(self) -> None:
        """Resume every job that had not ended when the last emulator stopped."""

    async def close(self) -> None:
        """Stop running jobs; the next emulator resumes them."""

    def admit(self, job: R_contra, /) -> None:
        """Run a stored job to its end."""

    async def cancel(self, job: R_contra, /) -> None:
        """Request the end of a job; return when the request is stored. Raises WireError."""


@dataclass(frozen=True, slots=True)
class JobType:
    """Names of one kind of job in its service."""

    service: str
    types: Any
    """The module of the request messages."""
    name: str
    """The noun in method names, e.g. `CustomJob`."""
    title: str
    """The noun in messages, e.g. `training pipeline`."""
    pb: Any
    collection: str
    fields: FieldTable[Pb]
    """Fields that a filter accepts."""
    unlisted: tuple[str, ...] = ()
    """Fields that a list leaves out."""

    @property
    def plural(self) -> str:
        """The field of a list's reply, e.g. `custom_jobs`."""
        return f"{snake_case(self.name)}s"

    @property
    def resource_type(self) -> str:
        return f"aiplatform.googleapis.com/{self.name}"

    @property
    def lists(self) -> str:
        """Name of the RPC that lists the jobs."""
        return f"List{self.name}s"


class JobHandlers(Generic[R]):
    """Handlers of one kind of job, which accept and return plain protobuf. A subclass implements `check`."""

    TYPE: JobType

    def __init__(self, table: ResourceTable[R], runner: JobRunner[R], operations: Operations) -> None:
        self.jobs, self.runner = table, runner
        self._operations = operations

    def methods(self) -> list[Method]:
        """Return the RPCs of this kind."""
        name, pb = self.TYPE.name, self.TYPE.pb
        return methods_of(
            self.TYPE.service,
            self.TYPE.types,
            (f"Create{name}", self.create, pb),
            (f"Get{name}", self.get, pb),
            (self.TYPE.lists, self.list),
            (f"Cancel{name}", self.cancel, empty_pb2.Empty),
            (f"Delete{name}", self.delete, operations_pb2.Operation),
        )

    async def create(self, request: Pb) -> Pb:
        """Check the request, store the job and start it. The job is on disk before the reply."""
        project, location = creation_parent(request.parent)
        self.check(request)
        job = await self._store(project, location, getattr(request, snake_case(self.TYPE.name)))
        self.runner.admit(job)
        return job.pb

    def check(self, request: Pb) -> None:
        """Refuse the creation of a job that could not run. Raises WireError."""

    async def _store(self, project: str, location: str, requested: Pb) -> R:
        return await self.jobs.create(project, location, requested)

    async def get(self, request: Pb) -> Pb:
        return self.find(request.name).pb

    async def list(self, request: Pb) -> Pb:
        fields = mask_fields(request.read_mask.paths, self.TYPE.pb.DESCRIPTOR)
        page, token = await self._page(request)
        jobs = {self.TYPE.plural: [job.pb for job in page]}
        reply = message_class(self.TYPE.types, f"{self.TYPE.lists}Response")(**jobs, next_page_token=token)
        listed = getattr(reply, self.TYPE.plural)
        for job in listed:
            for field in self.TYPE.unlisted:
                job.ClearField(field)
        keep_only(listed, fields)
        return reply

    async def cancel(self, request: Pb) -> empty_pb2.Empty:
        job = self.find(request.name)
        if job.terminal:
            raise failed_precondition(
                job.record.name,
                # Vertex AI sends this message (docs/facts/vertex.md 16).
                f'The {self.TYPE.name} "{job.record.name}" is in state {job.state_name} and cannot be '
                "canceled.",
            )
        await self.runner.cancel(job)
        return empty_pb2.Empty()

    async def delete(self, request: Pb) -> operations_pb2.Operation:
        job = self.find(request.name)
        if not job.terminal:
            raise failed_precondition(
                job.record.name,
                f"The {self.TYPE.title} {job.record.name} is in {job.state_name}; cancel the "
                f"{self.TYPE.title} and wait until it ends, then delete it.",
            )
        return await self._delete(job)

    def find(self, name: str) -> R:
        """Return the job with this name. Raises WireError."""
        return find(self.jobs, self.TYPE.collection, self.TYPE.resource_type, name)

    async def _page(self, request: Pb) -> tuple[Sequence[R], str]:
        return await list_page(self.jobs, request, self.TYPE.fields)

    async def _delete(self, job: R) -> operations_pb2.Operation:
        """Delete an ended job. The custom jobs that it started remain."""
        return await self._operations.delete_ended(
            self.jobs, job, self.TYPE.resource_type, lambda: self._unused_log(job)
        )

    def _unused_log(self, job: R) -> JobRecord | None:
        """Return the log that nothing needs once this job is deleted."""
        return log_record(job.record)


@dataclass(frozen=True, slots=True)
class EmulatedKind:
    """The declaration of a kind of job for the emulator; `Kind.emulated` of the console's kinds names it."""

    table: type[ResourceTable[Any]]
    handlers: Callable[[EmulatorParts, Any], JobHandlers[Any]]
    """Makes the RPC handlers and the runner of the jobs from the shared parts and the open table."""
    calls_services: bool = False
    """Whether jobs of this kind call the RPCs of other services, which the emulator then opens first."""

    async def open(self, parts: EmulatorParts) -> list[Method]:
        """Resume the jobs of this kind, and return its RPCs."""
        handlers = parts.keep(self.handlers(parts, parts.tables[self.table]))
        parts.stack.push_async_callback(handlers.runner.close)
        handlers.runner.adopt()
        return handlers.methods()
