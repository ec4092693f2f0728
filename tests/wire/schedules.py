"""Schedules on an emulator: created by the official client, and the emulator's clock set to their times."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from google.cloud.aiplatform_v1 import Schedule, ScheduleServiceAsyncClient
from google.cloud.aiplatform_v1.services.schedule_service.transports import (
    ScheduleServiceGrpcAsyncIOTransport,
)

from tests.waiting import until
from tests.wire.control import PARENT, Clients, emulator
from tests.wire.pipelines import ROOT, Pipelines
from tui.emulator.paths import StateDir
from tui.emulator.server import Emulator

IMPORT: dict[str, Any] = {
    "schemaVersion": "2.1.0",
    "sdkVersion": "kfp-2.17.0",
    "pipelineInfo": {"name": "nightly"},
    "root": {"dag": {"tasks": {"get": {"componentRef": {"name": "get"}, "taskInfo": {"name": "get"}}}}},
    "components": {
        "get": {
            "executorLabel": "get",
            "outputDefinitions": {
                "artifacts": {"artifact": {"artifactType": {"schemaTitle": "system.Artifact"}}}
            },
        }
    },
    "deploymentSpec": {
        "executors": {
            "get": {
                "importer": {
                    "artifactUri": {"constant": "gs://b/x"},
                    "typeSchema": {"schemaTitle": "system.Artifact"},
                }
            }
        }
    },
}
"""A pipeline that imports an artifact: it ends at once, without a process."""


class Schedules:
    """The schedules of one emulator, whose clock the tests set."""

    def __init__(self, clients: Clients) -> None:
        transport = ScheduleServiceGrpcAsyncIOTransport(channel=clients.channel)
        self.client = ScheduleServiceAsyncClient(transport=transport)
        self.pipelines = Pipelines(clients)
        self.clients = clients
        self.running: Emulator

    async def create(self, cron: str, spec: Mapping[str, Any] = IMPORT, **more: Any) -> Schedule:
        job = {
            "pipeline_spec": json.loads(json.dumps(spec)),
            "runtime_config": {"gcs_output_directory": ROOT},
        }
        if "template_uri" in more:
            job["template_uri"] = more.pop("template_uri")
            del job["pipeline_spec"]
        request = {"parent": PARENT, "pipeline_job": job, "pipeline_job_id": more.pop("id", "")}
        schedule = {
            "display_name": "s", "cron": cron, "max_concurrent_run_count": 1,
            "create_pipeline_job_request": request, **more,
        }  # fmt: skip
        return await self.client.create_schedule(parent=PARENT, schedule=schedule, timeout=60)

    async def get(self, name: str) -> Schedule:
        return await self.client.get_schedule(name=name, timeout=60)

    async def set_clock(self, moment: datetime) -> None:
        """Set the emulator's clock to `moment`; it goes on from there."""
        offset = (moment - datetime.now(UTC)).total_seconds()
        await self.clients.admin(do="clock", offset=offset)

    async def runs(self, name: str) -> list[str]:
        """The ids of a schedule's runs, the oldest first."""
        jobs = await self.pipelines.client.list_pipeline_jobs(
            request={"parent": PARENT, "filter": f'schedule_name="{name}"'}
        )
        return sorted([job.name.rsplit("/", 1)[1] async for job in jobs])

    async def started(self, name: str, count: int) -> Schedule:
        """The schedule once it has started so many runs."""

        async def look() -> Schedule | None:
            found = await self.get(name)
            assert found.started_run_count <= count, found
            return found if found.started_run_count == count else None

        found: Schedule = await until(look, f"{count} runs of {name}")
        return found


@asynccontextmanager
async def schedules(
    moment: datetime, state: StateDir | None = None, **config: Any
) -> AsyncIterator[Schedules]:
    """An emulator in this process, on `state` or one of its own, with its clock set to `moment`."""
    async with emulator(state, **config) as (running, clients):
        found = Schedules(clients)
        found.running = running
        await found.set_clock(moment)
        try:
            yield found
        finally:
            # The clock is the process's: the next test must not have it.
            await clients.admin(do="clock")
