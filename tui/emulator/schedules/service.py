"""ScheduleService: create, get, list, update, pause, resume, delete.

Vertex does not document the following behaviour, so the emulator chooses it: a schedule that can never have a
run is refused; pausing a schedule that is not ACTIVE and resuming a schedule that is not PAUSED are
FAILED_PRECONDITION; the first run is after `start_time`, not at it; deleting a schedule does not delete its
runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import ClassVar

from google.longrunning import operations_pb2
from google.protobuf import empty_pb2

from tui.domain.schedules.cron import CronError, read_cron
from tui.emulator.experiments.kinds import SCHEDULE
from tui.emulator.experiments.resource_service import ResourceServer, check_mask, copy_field, touched
from tui.emulator.experiments.store import ResourceStore
from tui.emulator.messages import Pb, copied, time_of, timestamp
from tui.emulator.pipelines.service import JOB_ID, PipelineServer, bad_id
from tui.emulator.rpc.methods import Method, failed_precondition, invalid, methods_of
from tui.emulator.schedules.due import State, seconds, set_next, spent
from tui.emulator.schedules.runs import ScheduleRuns
from tui.emulator.vertex.filter_fields import SCHEDULE_FIELDS
from tui.emulator.vertex.operations import Operations
from tui.emulator.vertex.resource_requests import creation_parent

_REQUEST = "create_pipeline_job_request"
_CHANGEABLE = (
    "display_name", "cron", _REQUEST, "start_time", "end_time", "max_run_count", "max_concurrent_run_count",
    "max_concurrent_active_run_count", "allow_queueing",
)  # fmt: skip
_OUTPUTS = (
    "started_run_count", "state", "create_time", "update_time", "next_run_time", "last_pause_time",
    "last_resume_time", "catch_up", "last_scheduled_run_response",
)  # fmt: skip
LONGEST_NAME = 128
_COUNTS = ("max_run_count", "max_concurrent_active_run_count")
_ORDERS = ("create_time", "start_time", "end_time", "next_run_time")


class ScheduleServer(ResourceServer):
    """RPC handlers of schedules."""

    ORDERS: ClassVar = {field: partial(time_of, field) for field in _ORDERS}

    def __init__(
        self, store: ResourceStore, operations: Operations, pipelines: PipelineServer, runs: ScheduleRuns
    ) -> None:
        super().__init__(SCHEDULE, store, operations)
        self._fields = SCHEDULE_FIELDS
        self._pipelines, self._runs = pipelines, runs

    def methods(self) -> list[Method]:
        pause = ("PauseSchedule", self.pause, empty_pb2.Empty)
        resume = ("ResumeSchedule", self.resume, empty_pb2.Empty)
        return [*super().methods(), *methods_of(SCHEDULE.service, SCHEDULE.requests, pause, resume)]

    async def create(self, request: Pb) -> Pb:
        creation_parent(request.parent)
        requested = copied(request.schedule)
        for field in _OUTPUTS:
            requested.ClearField(field)
        schedule = self.new(request.parent, requested, "")
        schedule.state = State.ACTIVE
        if not schedule.HasField("start_time"):
            schedule.start_time.CopyFrom(timestamp(self._runs.now()))
        self._check(schedule, request.parent)
        set_next(schedule, self._runs.now())
        if not schedule.HasField("next_run_time"):
            raise invalid(
                ("schedule.cron", f"{schedule.cron!r} must be due between now and the schedule's end")
            )
        async with self._runs.lock:
            await self._store.put(schedule)
        self._runs.changed()
        return schedule

    async def update(self, request: Pb) -> Pb:
        async with self._runs.lock:
            schedule = self._in(request.schedule.name, "updated", State.ACTIVE, State.PAUSED)
            for field in _changed_fields(request.update_mask.paths):
                if _filled(schedule, field) and not _filled(request.schedule, field):
                    raise invalid((f"schedule.{field}", "must not be unset"))
                copy_field(request.schedule, schedule, field)
            self._check(schedule, schedule.name.rpartition("/schedules/")[0])
            set_next(schedule, self._runs.now())
            if spent(schedule):
                schedule.state = State.COMPLETED
            await self._store.put(touched(schedule))
        self._runs.changed()
        return schedule

    async def pause(self, request: Pb) -> empty_pb2.Empty:
        async with self._runs.lock:
            schedule = self._in(request.name, "paused", State.ACTIVE)
            schedule.state = State.PAUSED
            schedule.last_pause_time.CopyFrom(timestamp(self._runs.now()))
            await self._store.put(touched(schedule))
        return empty_pb2.Empty()

    async def resume(self, request: Pb) -> empty_pb2.Empty:
        async with self._runs.lock:
            schedule = self._in(request.name, "resumed", State.PAUSED)
            schedule.state, schedule.catch_up = State.ACTIVE, request.catch_up
            schedule.last_resume_time.CopyFrom(timestamp(self._runs.now()))
            if not request.catch_up:
                set_next(schedule, self._runs.now())
            await self._store.put(touched(schedule))
        self._runs.changed()
        return empty_pb2.Empty()

    async def delete(self, request: Pb) -> operations_pb2.Operation:
        async with self._runs.lock:
            return await super().delete(request)

    def rows(self, parent: str) -> Sequence[Pb]:
        return super().rows(parent)[::-1]

    def _check(self, pb: Pb, parent: str) -> None:
        """Raise WireError for an invalid schedule."""
        problems = list(_schedule_problems(pb, parent))
        job_id = pb.create_pipeline_job_request.pipeline_job_id
        if job_id and not JOB_ID.fullmatch(job_id):
            problems.append((f"{_REQUEST}.pipeline_job_id", bad_id(job_id)))
        if problems:
            raise invalid(*((f"schedule.{field}", problem) for field, problem in problems))
        self._pipelines.checked(pb.create_pipeline_job_request, f"schedule.{_REQUEST}.pipeline_job")

    def _in(self, name: str, action: str, *states: int) -> Pb:
        """Return a copy of a schedule that is in one of these states. Raises WireError."""
        schedule = self.find(name)
        if schedule.state not in states:
            allowed = " or ".join(State(state).name for state in states)
            raise failed_precondition(
                name,
                f"The schedule {name} is {State(schedule.state).name}; it must be {allowed} to be {action}.",
            )
        return copied(schedule)


def _changed_fields(paths: Sequence[str]) -> list[str]:
    """Return the fields that an update mask names, without outputs. Raises WireError."""
    fields = list(dict.fromkeys(path.partition(".")[0] for path in paths))
    inputs = [field for field in fields if field not in _OUTPUTS]
    if inputs or not fields:
        check_mask(inputs, _CHANGEABLE)
    return inputs


def _filled(pb: Pb, field: str) -> bool:
    """Return whether a field has a value that can't be unset. `allow_queueing` may always be turned off."""
    return field != "allow_queueing" and any(descriptor.name == field for descriptor, _ in pb.ListFields())


def _schedule_problems(pb: Pb, parent: str) -> Iterator[tuple[str, str]]:
    """Yield the wrong fields of the schedule and their problems. The pipeline itself is checked elsewhere."""
    if not pb.display_name or len(pb.display_name) > LONGEST_NAME:
        yield "display_name", f"is required, with up to {LONGEST_NAME} characters"
    try:
        read_cron(pb.cron)
    except CronError as error:
        yield "cron", str(error)
    if pb.max_concurrent_run_count < 1:
        yield "max_concurrent_run_count", "is required and must be at least 1"
    for field in _COUNTS:
        if getattr(pb, field) < 0:
            yield field, "must not be negative"
    if pb.HasField("end_time") and seconds(pb.end_time) <= seconds(pb.start_time):
        yield "end_time", "must be after start_time"
    if pb.WhichOneof("request") != "create_pipeline_job_request":
        yield "create_pipeline_job_request", "is required: the emulator schedules only pipeline jobs"
    elif pb.create_pipeline_job_request.parent != parent:
        yield "create_pipeline_job_request.parent", f"must be the schedule's parent, {parent}"
