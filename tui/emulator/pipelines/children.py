"""Children of tasks: custom jobs, tuning jobs, and operations of the emulator's own services.

A child has a name before it is stored, so it is stored together with its task's record; the next server finds
the child's state by that name. An interrupted operation starts again; it had changed nothing, because its end
and its change are one transaction.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from google.longrunning import operations_pb2
from google.rpc import code_pb2

from tui.emulator.database import NOTHING, Change
from tui.emulator.interfaces import JobRecord
from tui.emulator.messages import Pb
from tui.emulator.pipelines.planner import Values
from tui.emulator.rpc.methods import Unary, WireError
from tui.emulator.tuning.table import TuningJobRecord
from tui.emulator.vertex.job_handlers import JobHandlers
from tui.emulator.vertex.job_table import State
from tui.emulator.vertex.operations import Operations, RunningOperation, call_within


@dataclass(frozen=True, slots=True)
class Child:
    """A child that is neither stored nor started. `outputs` are the outputs of its task from now on."""

    name: str
    change: Change
    begin: Callable[[], None]
    outputs: Values = field(default_factory=Values)


NewChild = Callable[[], Awaitable[Child]]
"""A function that prepares a child. Raises StorageFull."""


@dataclass(frozen=True, slots=True)
class ChildOutcome:
    """The end of a child, successful without an `error`. `reply` is the response of an operation."""

    error: str = ""
    cancelled: bool = False
    reply: Any = None


@dataclass(frozen=True, slots=True)
class ApiCall:
    """An operation below `parent` that runs a method of the API.

    `request` returns the method's request; its argument is true if the previous server had started the
    operation. If `request` returns `None`, nothing is left to do, and `reply` ends the operation. Raises
    WireError.
    """

    parent: str
    metadata: Any
    method: Unary
    request: Callable[[bool], Awaitable[Pb | None]]
    reply: Any = None


@dataclass(frozen=True, slots=True)
class Children:
    """Children of all pipelines. `methods` are the RPCs of models and endpoints by name."""

    kinds: Mapping[str, JobHandlers[Any]]
    """Kinds of jobs that a task can start, by collection."""
    operations: Operations
    methods: Mapping[str, Unary]

    def check_tuning(self, request: Pb) -> None:
        """Refuse the creation of a tuning job that could not run. Raises WireError."""
        handlers: Any = self.kinds[TuningJobRecord.COLLECTION]
        handlers.check(request)

    def custom_job(self, project: str, location: str, request: Pb) -> NewChild:
        """Prepare a custom job."""
        return self._job(JobRecord.COLLECTION, project, location, request, lambda _: Values())

    def tuning_job(
        self, project: str, location: str, request: Pb, outputs: Callable[[str], Values]
    ) -> NewChild:
        """Prepare a hyperparameter tuning job. `outputs` returns the outputs of its task, given its name."""
        return self._job(TuningJobRecord.COLLECTION, project, location, request, outputs)

    def _job(
        self, collection: str, project: str, location: str, request: Pb, outputs: Callable[[str], Values]
    ) -> NewChild:
        kind: Any = self.kinds[collection]

        async def new() -> Child:
            job, change = await kind.jobs.prepare(project, location, request)
            name = job.record.name
            return Child(name, change, lambda: kind.runner.admit(job), outputs(name))

        return new

    def operation(self, call: ApiCall, outputs: Callable[[str], Values]) -> NewChild:
        """Prepare an operation that runs `call`. `outputs` returns the task's outputs by its name."""

        async def new() -> Child:
            row, change = await self.operations.prepare(call.parent, call.metadata)
            name = row.operation.name
            return Child(
                name, change, lambda: self.operations.begin(row, self._work(call, False)), outputs(name)
            )

        return new

    def is_interrupted(self, name: str) -> bool:
        """Return whether the child is an operation that the previous server did not end."""
        return _collection(name) == "operations" and self.operations.is_interrupted(name)

    def resume(self, name: str, call: ApiCall) -> None:
        """Restart an interrupted operation."""
        self.operations.resume(name, self._work(call, True))

    def outcome(self, name: str) -> ChildOutcome | None:
        """Return how a child has ended, or `None` while it runs."""
        collection, number = _collection(name), name.rpartition("/")[2]
        if collection == "operations":
            return _of_operation(self.operations.get_known(name))
        job = self.kinds[collection].jobs.get(number)
        if job is None:
            custom = collection == JobRecord.COLLECTION
            return ChildOutcome("The task's custom job was deleted." if custom else f"{name} was deleted.")
        if not job.terminal:
            return None
        if job.pb.state == State.JOB_STATE_SUCCEEDED:
            return ChildOutcome()
        message = job.pb.error.message or f"Its job ended in {State(job.pb.state).name}."
        return ChildOutcome(message, job.pb.state == State.JOB_STATE_CANCELLED)

    def change(self, name: str) -> Callable[[], Awaitable[Any]] | None:
        """Return a function that waits until the outcome may have changed, or `None` if there is nothing to
        wait for.

        Get the function before reading the outcome to miss no change.
        """
        collection, number = _collection(name), name.rpartition("/")[2]
        if collection == "operations":
            return partial(self.operations.ended, name)
        job = self.kinds[collection].jobs.get(number)
        return job.ended.wait if job is not None else None

    async def cancel(self, name: str) -> None:
        """Request the end of a child. An ended child is unaffected."""
        collection, number = _collection(name), name.rpartition("/")[2]
        if collection == "operations":
            self.operations.cancel_work(name)
            return
        kind = self.kinds[collection]
        job = kind.jobs.get(number)
        if job is not None and not job.terminal and not job.cancelled.is_set():
            # The child may end in the meantime, or the disk may be full: the next round tries again.
            with contextlib.suppress(WireError):
                await kind.runner.cancel(job)

    def _work(self, call: ApiCall, again: bool) -> Callable[[RunningOperation], Awaitable[None]]:
        async def work(running: RunningOperation) -> None:
            request = await call.request(again)
            if request is None:
                await running.end(call.reply, NOTHING)
            else:
                await call_within(running, call.method, request)

        return work


def _collection(name: str) -> str:
    return name.split("/")[-2]


def _of_operation(operation: operations_pb2.Operation | None) -> ChildOutcome | None:
    if operation is None:
        return ChildOutcome("The task's operation was deleted.")
    if not operation.done:
        return None
    if operation.HasField("error"):
        return ChildOutcome(operation.error.message, operation.error.code == code_pb2.CANCELLED)
    return ChildOutcome(reply=operation.response)
