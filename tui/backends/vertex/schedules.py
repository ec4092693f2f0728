"""Schedules of Vertex AI: ScheduleService, and the pipeline jobs that they created."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from google.cloud.aiplatform_v1.services.schedule_service import ScheduleServiceAsyncClient
from google.cloud.aiplatform_v1.services.schedule_service.transports.grpc_asyncio import (
    ScheduleServiceGrpcAsyncIOTransport,
)
from google.cloud.aiplatform_v1.types.schedule import Schedule as ScheduleProto
from google.protobuf import timestamp_pb2

from tui.backends.interface import BackendError, ContextInfo
from tui.backends.schedules import ScheduleService
from tui.backends.serving import RegionResults
from tui.backends.vertex.jobs import pipeline_jobs
from tui.backends.vertex.regions import RegionLists, region_in
from tui.backends.vertex.timestamps import moment
from tui.backends.vertex.transport import deadlines
from tui.backends.vertex.transport.channels import Clients
from tui.backends.vertex.transport.connect import Service
from tui.domain.core.job import Job
from tui.domain.masking import mask_text
from tui.domain.schedules.schedule import NewSchedule, Schedule

Pb = Any
COLLECTION = "schedules"
RUNS = 50
"""Maximum number of runs that are listed."""
AT_ONCE = 4
"""Number of schedules whose newest runs are read at the same time."""
_Message = ScheduleProto.pb()
_STATES = {member.value: name for name, member in ScheduleProto.State.__members__.items()}
_RUN_FIELDS = (
    "name", "display_name", "state", "create_time", "start_time", "end_time", "update_time", "labels",
    "error",
)  # fmt: skip


class Schedules(ScheduleService):
    """Schedules of one context's project, in its regions."""

    def __init__(self, info: ContextInfo, clients: Clients) -> None:
        self._info = info
        self._clients = clients
        self._lists = RegionLists(info, clients)
        self._newest: dict[str, tuple[datetime | None, Job]] = {}
        """Cached newest runs that have ended, with their due times, by schedule."""

    async def list_all(self) -> RegionResults[Schedule]:
        gate = asyncio.Semaphore(AT_ONCE)

        async def with_run(pb: Pb, region: str) -> Schedule:
            async with gate:
                return schedule_of(pb, region, self._info.name, await self._newest_run(pb, region))

        async def read(region: str) -> list[Schedule]:
            messages = await self._lists.all(
                f"list the schedules of {region}",
                lambda: self._client(region).list_schedules,
                {"parent": self._lists.parent(region)},
                "schedules",
            )
            return await asyncio.gather(*(with_run(pb, region) for pb in messages))

        return await self._lists.everywhere(read)

    async def get(self, name: str) -> Schedule:
        region = region_in(name, COLLECTION)
        pb = await self._clients.read(
            f"read the schedule {name}", lambda: self._client(region).get_schedule, name=name
        )
        return schedule_of(pb, region, self._info.name, await self._newest_run(pb, region))

    async def runs(self, name: str) -> Sequence[Job]:
        return await self._runs(name, region_in(name, COLLECTION), RUNS)

    async def create(self, region: str, schedule: NewSchedule) -> Schedule:
        region = region or self._info.regions[0]
        parent = self._lists.parent(region)
        message = _message(schedule, parent)
        pb = await self._clients.once(
            f"create the schedule {schedule.display_name} in {region}",
            lambda: self._client(region).create_schedule,
            within=deadlines.CREATE,
            parent=parent,
            schedule=ScheduleProto.wrap(message),
        )
        return await self.get(pb.name)

    async def pause(self, name: str) -> Schedule:
        await self._change("pause", name)
        return await self.get(name)

    async def resume(self, name: str, catch_up: bool) -> Schedule:
        await self._change("resume", name, catch_up=catch_up)
        return await self.get(name)

    async def delete(self, name: str) -> None:
        await self._change("delete", name)

    async def _change(self, verb: str, name: str, **fields: Any) -> None:
        client = self._client(region_in(name, COLLECTION))
        await self._clients.once(
            f"{verb} the schedule {name}", lambda: getattr(client, f"{verb}_schedule"), name=name, **fields
        )

    def _client(self, region: str) -> ScheduleServiceAsyncClient:
        """Return the ScheduleService client of one region, at the address of JobService."""
        classes = ScheduleServiceAsyncClient, ScheduleServiceGrpcAsyncIOTransport
        return self._clients.client_of(Service.JOBS, region, *classes)  # type: ignore[no-any-return]

    async def _newest_run(self, pb: Pb, region: str) -> Job | None:
        """Return the newest run, or `None` if there is none, or if it can't be read."""
        if not pb.started_run_count:
            return None
        due = moment(pb.last_scheduled_run_response, "scheduled_run_time")
        at, known = self._newest.get(pb.name, (None, None))
        if known is not None and at == due:
            return known
        try:
            runs = await self._runs(pb.name, region, 1)
        except BackendError:
            return None
        if runs and runs[0].state.terminal:
            self._newest[pb.name] = due, runs[0]
        return runs[0] if runs else None

    async def _runs(self, name: str, region: str, count: int) -> list[Job]:
        request = {
            "parent": self._lists.parent(region),
            "filter": f'schedule_name="{name}"',
            "page_size": count,
            "order_by": "create_time desc",
            "read_mask": {"paths": list(_RUN_FIELDS)},
        }
        page = await self._clients.read(
            f"list the runs of the schedule {name}",
            lambda: self._clients.pipelines(region).list_pipeline_jobs,
            request,
        )
        return [pipeline_jobs.job(pb, self._info.name) for pb in page.pipeline_jobs]


def schedule_of(pb: Pb, region: str, context: str, last_run: Job | None = None) -> Schedule:
    """Convert a Schedule message to a domain object."""
    response = pb.last_scheduled_run_response
    return Schedule(
        name=pb.name,
        display_name=pb.display_name,
        region=region,
        state=_STATES.get(pb.state) or str(pb.state),
        context=context,
        cron=pb.cron,
        pipeline=_pipeline(pb),
        create_time=moment(pb, "create_time"),
        start_time=moment(pb, "start_time"),
        end_time=moment(pb, "end_time"),
        next_run_time=moment(pb, "next_run_time"),
        last_pause_time=moment(pb, "last_pause_time"),
        started=pb.started_run_count,
        max_runs=pb.max_run_count or None,
        max_active=pb.max_concurrent_active_run_count or None,
        queues=pb.allow_queueing,
        catch_up=pb.catch_up,
        last_time=moment(response, "scheduled_run_time"),
        last_response=mask_text(response.run_response),
        last_run=last_run,
    )


def _pipeline(pb: Pb) -> str:
    if pb.WhichOneof("request") != "create_pipeline_job_request":
        return str(pb.WhichOneof("request") or "")
    job = pb.create_pipeline_job_request.pipeline_job
    spec = job.pipeline_spec.fields
    info = spec["pipelineInfo"].struct_value.fields if "pipelineInfo" in spec else {}
    name = info["name"].string_value if "name" in info else ""
    return str(job.display_name or name or job.template_uri)


def _message(schedule: NewSchedule, parent: str) -> Pb:
    """Return the message of a create request. Raises InvalidRequest naming the invalid field."""
    message = _Message(
        display_name=schedule.display_name,
        cron=schedule.cron,
        # Starting a run takes one call, so concurrent runs are not needed.
        max_concurrent_run_count=1,
        max_run_count=schedule.max_runs or 0,
        max_concurrent_active_run_count=schedule.max_active or 0,
        allow_queueing=schedule.queues,
    )
    for field, value in (("start_time", schedule.start_time), ("end_time", schedule.end_time)):
        if value is not None:
            stamp = timestamp_pb2.Timestamp()
            stamp.FromDatetime(value)
            getattr(message, field).CopyFrom(stamp)
    request = message.create_pipeline_job_request
    request.parent = parent
    request.pipeline_job.CopyFrom(pipeline_jobs.PipelineJobs.resource.parse(schedule.job))
    return message
