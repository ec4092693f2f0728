"""Long-running operations, and google.longrunning.Operations to watch them.

The deletion of a job continues at the next start of the emulator. Other work ends with the emulator: the
service that started it may resume it; otherwise its operation ends with ABORTED, and nothing has changed.
"""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import sqlite3
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from google.cloud.aiplatform_v1.types import endpoint_service
from google.cloud.aiplatform_v1.types import operation as operation_types
from google.longrunning import operations_pb2
from google.protobuf import any_pb2, empty_pb2
from google.rpc import code_pb2, status_pb2

from tui.emulator.database import NOTHING, Change, Database, together
from tui.emulator.interfaces import JobRecord, ResourceRecord
from tui.emulator.messages import Pb, copied, current_time, set_created
from tui.emulator.paths import StateDir
from tui.emulator.rpc.methods import Method, WireError, internal, invalid, methods_of, not_found
from tui.emulator.rpc.paging import page_size, query_digest, read_token, write_token
from tui.emulator.rpc.project_names import numbered
from tui.emulator.vertex.job_table import CustomJob, CustomJobTable
from tui.emulator.vertex.resource_table import R, ResourceTable

log = logging.getLogger(__name__)

SERVICE = "google.longrunning.Operations"
CUSTOM_JOB_KIND = "aiplatform.googleapis.com/CustomJob"
DELETE_SECONDS = 0.5
"""Maximum wait of a deletion for its files, in seconds; most replies are `done` at once."""
NO_SUBJECT = "0"
"""Replacement of a job's id in operations on other resources."""
MAX_WAIT = 60.0
"""Maximum wait of WaitOperation, in seconds."""

_NAME = re.compile(r"projects/[^/]+/locations/[^/]+(?:/[A-Za-z]+/[^/]+)?/operations/([^/]+)")
_LOCATION = re.compile(r"projects/([^/]+)/locations/([^/]+)(?:/operations)?/?")
_DeletePb = operation_types.DeleteOperationMetadata.pb()
_DeployPb = endpoint_service.DeployModelOperationMetadata.pb()


def log_record(record: ResourceRecord) -> JobRecord:
    """Return the record under which the log of a resource other than a custom job is stored."""
    return JobRecord(record.project, record.location, record.id)


_INTERRUPTED = (
    "The emulator ended during this operation. Read the resource; if it is unchanged, repeat the call."
)


@dataclass(frozen=True, slots=True)
class OperationRow:
    """One long-running operation and the id of its job."""

    project: str
    location: str
    subject_id: str
    operation: operations_pb2.Operation


@dataclass(frozen=True, slots=True)
class RunningOperation:
    """An operation in progress, as passed to its work."""

    name: str
    end: Callable[[Any, Change], Awaitable[None]]
    """A function that ends the operation with a reply, and makes a change in the same transaction."""


Work = Callable[[RunningOperation], Awaitable[None]]
"""A function that does the work of an operation and ends it. A WireError becomes the operation's error."""
_within: ContextVar[RunningOperation | None] = ContextVar("operation", default=None)
"""The operation whose work is running. Methods called within it start no operation."""


async def call_within(
    running: RunningOperation, method: Callable[[Any], Awaitable[Any]], request: Any
) -> None:
    """Call a method of the API as the work of an operation that is already stored.

    The method's reply ends this operation instead of a new operation. Raises WireError.
    """
    token = _within.set(running)
    try:
        await method(request)
    finally:
        _within.reset(token)


class Operations:
    """All operations, done and in progress."""

    def __init__(
        self,
        database: Database,
        state: StateDir,
        forget: Callable[[JobRecord], Awaitable[None]],
    ) -> None:
        self._database = database
        self._state = state
        self._forget = forget
        self._rows: dict[str, OperationRow] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._work: dict[str, asyncio.Task[None]] = {}
        self._interrupted: dict[str, OperationRow] = {}
        self._plans: dict[str, Any] = {}
        """Packed messages for resuming interrupted operations, by operation number."""
        self._cancelled: set[str] = set()
        self._ending: set[str] = set()
        """Numbers of operations whose end is being stored, so it is too late to cancel them."""

    async def open(self) -> None:
        """Load the operations and resume unfinished deletions of jobs.

        Raises DatabaseError when they can't be read.
        """
        for row in await self._database.load(read_operations):
            number = _number(row.operation.name)
            self._rows[number] = row
            if row.operation.done:
                continue
            if row.operation.HasField("response"):
                self._plans[number] = any_pb2.Any()
                self._plans[number].CopyFrom(row.operation.response)
                row.operation.ClearField("response")
            if row.subject_id == NO_SUBJECT:
                self._interrupted[number] = row
            else:
                self._tasks[number] = asyncio.create_task(self._finish(number))

    def interrupted(self, metadata: Any) -> list[str]:
        """Return the names of interrupted operations with this type of metadata."""
        interrupted = self._interrupted.values()
        return [row.operation.name for row in interrupted if row.operation.metadata.Is(metadata.DESCRIPTOR)]

    def plan(self, name: str, message: Any) -> Any:
        """Fill in the message that `start` stored with this interrupted operation."""
        self._plans.pop(_number(name), any_pb2.Any()).Unpack(message)
        return message

    def resume(self, name: str, work: Work) -> None:
        """Resume an interrupted operation."""
        number = _number(name)
        self._run(number, self._interrupted.pop(number), work)

    async def abort_interrupted(self) -> None:
        """End the interrupted operations that no service has resumed."""
        for row in self._interrupted.values():
            await self._end(row, error=status_pb2.Status(code=code_pb2.ABORTED, message=_INTERRUPTED))
        self._interrupted.clear()

    async def stop_work(self) -> None:
        """Stop the work of all operations without ending them."""
        for task in self._work.values():
            task.cancel()
        await asyncio.gather(*self._work.values(), return_exceptions=True)

    async def close(self) -> None:
        """Wait for the deletions in progress."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def start(
        self, subject: str, metadata: Any, work: Work, *, plan: Any = None
    ) -> operations_pb2.Operation:
        """Start an operation on the resource `subject`. The reply of short work is already done.

        `metadata` is a message with `generic_metadata`. `plan` is a message for resuming the work. Raises
        StorageFull when the operation could not be stored; `work` then does not start.
        """
        if (within := _within.get()) is not None:
            await work(within)
            return self._rows[_number(within.name)].operation
        row, change = await self.prepare(subject, metadata, plan=plan)
        await self._database.make(change)
        number = _number(row.operation.name)
        task = self._run(number, row, work)
        await asyncio.wait({task}, timeout=DELETE_SECONDS)
        return self._rows[number].operation

    async def prepare(self, subject: str, metadata: Any, *, plan: Any = None) -> tuple[OperationRow, Change]:
        """Prepare an operation to be stored together with other changes. Call `begin` afterwards.

        Raises StorageFull when no number could be stored.
        """
        number = str(await self._database.next_id())
        row = _row(f"{subject}/operations/{number}", metadata)

        stored = row
        if plan is not None:
            # Only the file contains the plan, because clients never get a response of an operation in
            # progress.
            stored = replace(row, operation=operations_pb2.Operation())
            stored.operation.CopyFrom(row.operation)
            stored.operation.response.Pack(plan)

        return row, Change(lambda db: _put(db, stored), lambda: self._rows.update({number: row}))

    def begin(self, row: OperationRow, work: Work) -> None:
        """Start the work of a stored operation."""
        self._run(_number(row.operation.name), row, work)

    def get_known(self, name: str) -> operations_pb2.Operation | None:
        """Return the operation of that name, or `None` if it was deleted."""
        row = self._rows.get(_number(name))
        return row.operation if row is not None else None

    def is_interrupted(self, name: str) -> bool:
        """Return whether the operation was interrupted and is not yet resumed."""
        return _number(name) in self._interrupted

    async def ended(self, name: str) -> None:
        """Wait until the work of an operation ends."""
        task = self._work.get(_number(name))
        if task is not None:
            await asyncio.wait({task})

    def cancel_work(self, name: str) -> None:
        """Cancel an operation, unless its end is already being stored."""
        number = _number(name)
        task = self._work.get(number)
        if task is not None and number not in self._ending:
            self._cancelled.add(number)
            task.cancel()

    def _run(self, number: str, row: OperationRow, work: Work) -> asyncio.Task[None]:
        task = asyncio.create_task(self._do(row, work), name=f"operation {number}")
        self._work[number] = task
        task.add_done_callback(lambda _: self._work.pop(number, None))
        return task

    async def _do(self, row: OperationRow, work: Work) -> None:
        name = row.operation.name

        async def end(reply: Any, change: Change) -> None:
            await self._end(row, reply=reply, change=change)

        try:
            await work(RunningOperation(name, end))
        except WireError as error:
            await self._end(row, error=error.status())
        except asyncio.CancelledError:
            if _number(name) not in self._cancelled:
                raise
            self._cancelled.discard(_number(name))
            cancelled = status_pb2.Status(code=code_pb2.CANCELLED, message="The operation was cancelled.")
            await self._end(row, error=cancelled)
        except Exception:
            log.exception("%s failed", name)
            await self._end(row, error=internal().status())

    async def _end(
        self, row: OperationRow, *, reply: Any = None, error: Any = None, change: Change = NOTHING
    ) -> None:
        number = _number(row.operation.name)
        self._ending.add(number)
        try:
            await self._database.finish(self._store_end(row, reply, error, change))
        finally:
            self._ending.discard(number)

    async def _store_end(self, row: OperationRow, reply: Any, error: Any, change: Change) -> None:
        await self._database.make(together(change, self._storing(_ended(row, reply, error))))

    async def delete_job(self, table: CustomJobTable, job: CustomJob) -> operations_pb2.Operation:
        """Delete an ended custom job: its row at once, its log and files soon after."""
        number = await self._database.finish(self._delete_job(table, job))
        task = self._tasks.get(number)
        if task is not None:
            await asyncio.wait({task}, timeout=DELETE_SECONDS)
        return self._rows[number].operation

    async def delete_ended(
        self, table: ResourceTable[R], resource: R, kind: str, unused_log: Callable[[], JobRecord | None]
    ) -> operations_pb2.Operation:
        """Delete an ended resource of type `kind`, and its log if nothing else needs it."""
        number = await self._database.finish(self._delete(table, resource, kind, unused_log))
        return self._rows[number].operation

    async def done(self, project: str, location: str, reply: Pb) -> operations_pb2.Operation:
        """Return an ended operation with this reply, for a method that completes immediately."""
        return await self.make(f"projects/{project}/locations/{location}", None, reply, NOTHING)

    async def make(self, subject: str, metadata: Any, reply: Any, change: Change) -> operations_pb2.Operation:
        """Make a change at once and return the ended operation. `subject` is as in `start`.

        Raises StorageFull when the write failed; then nothing has changed.
        """
        if (within := _within.get()) is not None:
            await within.end(reply, change)
            return self._rows[_number(within.name)].operation
        row, _ = await self.prepare(subject, metadata)
        await self._end(row, reply=reply, change=change)
        return self._rows[_number(row.operation.name)].operation

    async def _delete(
        self, table: ResourceTable[R], resource: R, kind: str, unused_log: Callable[[], JobRecord | None]
    ) -> str:
        number = await self._delete_row(table, resource, kind, done=True)
        log_of = unused_log()
        if log_of is not None:
            await self._forget(log_of)
        return number

    async def _delete_job(self, table: CustomJobTable, job: CustomJob) -> str:
        number = await self._delete_row(table, job, CUSTOM_JOB_KIND, done=False)
        self._tasks[number] = asyncio.create_task(self._finish(number))
        return number

    def _storing(self, row: OperationRow) -> Change:
        """Return the change that inserts or replaces an operation."""
        number = _number(row.operation.name)
        return Change(lambda db: _put(db, row), lambda: self._rows.update({number: row}))

    async def _delete_row(self, table: ResourceTable[R], resource: R, kind: str, *, done: bool) -> str:
        """Replace the resource's row with an operation. Return the number of the operation."""
        async with resource.lock:
            record = resource.record
            if table.get(record.id) is not resource:
                raise not_found(kind, record.name)
            number = str(await self._database.next_id())
            row = replace(_row(f"{record.parent}/operations/{number}", _DeletePb()), subject_id=record.id)
            if done:
                row = _ended(row, empty_pb2.Empty(), None)
            await self._database.make(together(self._storing(row), table.deletion(resource)))
        return number

    async def _finish(self, number: str) -> None:
        row = self._rows[number]
        await self._forget(JobRecord(row.project, row.location, row.subject_id))
        await self._remove_files(number)

    async def _remove_files(self, number: str) -> None:
        row, problem = self._rows[number], None
        try:
            folder = self._state.job(row.subject_id)
            if folder.exists():
                await asyncio.to_thread(shutil.rmtree, folder)
        except OSError as error:
            text = f"The job is deleted, but its directory is not: {error}"
            problem = status_pb2.Status(code=code_pb2.INTERNAL, message=text)
        finished, metadata = _ended(row, empty_pb2.Empty(), problem), _DeletePb()
        finished.operation.metadata.Unpack(metadata)
        metadata.generic_metadata.update_time.CopyFrom(current_time())
        finished.operation.metadata.Pack(metadata)
        storing = self._storing(finished)
        try:
            await self._database.write(storing.write)
        except WireError as error:
            # The next start detects that the files are gone. Only the end of the operation is not stored.
            log.warning("%s", error.message)
        storing.show()
        self._tasks.pop(number, None)

    def methods(self) -> list[Method]:
        """Return the RPCs of google.longrunning.Operations."""
        pb = operations_pb2
        return methods_of(
            SERVICE,
            pb,
            ("GetOperation", self.get, pb.Operation),
            ("ListOperations", self.list),
            ("WaitOperation", self.wait, pb.Operation),
            ("CancelOperation", self.cancel, empty_pb2.Empty),
            ("DeleteOperation", self.delete, empty_pb2.Empty),
        )

    async def get(self, request: operations_pb2.GetOperationRequest) -> operations_pb2.Operation:
        return self._find(request.name).operation

    async def list(
        self, request: operations_pb2.ListOperationsRequest
    ) -> operations_pb2.ListOperationsResponse:
        """List operations, newest first. Filters are not supported, because a deletion has only its name."""
        location = _LOCATION.fullmatch(request.name)
        if location is None:
            raise invalid(("name", f"{request.name!r} must have the form projects/P/locations/L"))
        if request.filter:
            raise invalid(("filter", "must be empty: the emulator does not filter operations"))
        size, digest = page_size(request.page_size), query_digest("operations", request.name)
        start = read_token(request.page_token, digest, (int,))
        numbers = sorted(
            (int(n) for n, r in self._rows.items() if (r.project, r.location) == location.groups())
        )
        rest = [n for n in reversed(numbers) if start is None or n < int(start[0])]
        return operations_pb2.ListOperationsResponse(
            operations=[self._rows[str(n)].operation for n in rest[:size]],
            next_page_token=write_token((rest[size - 1],), digest) if len(rest) > size else "",
        )

    async def wait(self, request: operations_pb2.WaitOperationRequest) -> operations_pb2.Operation:
        """Return the operation when it is done, or its state after the timeout (60 s at most)."""
        row = self._find(request.name)
        timeout = (
            request.timeout.seconds + request.timeout.nanos / 1e9 if request.HasField("timeout") else MAX_WAIT
        )
        number = _number(row.operation.name)
        task = self._tasks.get(number) or self._work.get(number)
        if task is not None:
            await asyncio.wait({task}, timeout=max(0.0, min(timeout, MAX_WAIT)))
        return self._rows[number].operation

    async def cancel(self, request: operations_pb2.CancelOperationRequest) -> empty_pb2.Empty:
        """Cancel a deployment. Other operations continue: the API documents best effort."""
        row = self._find(request.name)
        if row.operation.metadata.Is(_DeployPb.DESCRIPTOR):
            self.cancel_work(request.name)
        return empty_pb2.Empty()

    async def delete(self, request: operations_pb2.DeleteOperationRequest) -> empty_pb2.Empty:
        """Delete a done operation."""
        row = self._find(request.name)
        if not row.operation.done:
            raise WireError(code_pb2.FAILED_PRECONDITION, f"The operation {request.name} is not done yet.")
        number = _number(row.operation.name)
        await self._database.write(
            lambda db: db.execute("DELETE FROM operations WHERE id = ?", (int(number),))
        )
        self._rows.pop(number, None)
        return empty_pb2.Empty()

    def _find(self, name: str) -> OperationRow:
        match = _NAME.fullmatch(name)
        row = self._rows.get(match[1]) if match else None
        if row is None:
            raise not_found("google.longrunning.Operation", name)
        return row


def _row(name: str, metadata: Any) -> OperationRow:
    operation = operations_pb2.Operation(name=name)
    if metadata is not None:
        set_created(metadata.generic_metadata)
        operation.metadata.Pack(metadata)
    _, project, _, location, *_ = name.split("/")
    return OperationRow(project, location, NO_SUBJECT, operation)


def _number(name: str) -> str:
    return name.rsplit("/", 1)[1]


def _ended(row: OperationRow, reply: Any, error: Any) -> OperationRow:
    operation = copied(row.operation)
    operation.done = True
    if error is not None:
        operation.error.CopyFrom(error)
    else:
        operation.response.Pack(numbered(reply))
    return replace(row, operation=operation)


def read_operations(db: sqlite3.Connection) -> list[OperationRow]:
    """Decode all stored operations."""
    rows = db.execute("SELECT project, location, job, operation FROM operations")
    return [
        OperationRow(project, location, str(subject_id), operations_pb2.Operation.FromString(body))
        for project, location, subject_id, body in rows
    ]


def _put(db: sqlite3.Connection, row: OperationRow) -> None:
    """Insert or replace one operation in the transaction of `db`."""
    number = int(_number(row.operation.name))
    values = number, row.project, row.location, int(row.subject_id), row.operation.SerializeToString()
    db.execute("INSERT OR REPLACE INTO operations VALUES (?,?,?,?,?)", values)
