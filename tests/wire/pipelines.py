"""Pipelines on an emulator: created by the official client, and followed to their end."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from google.cloud.aiplatform_v1 import PipelineJob, PipelineServiceAsyncClient
from google.cloud.aiplatform_v1.services.pipeline_service.transports import (
    PipelineServiceGrpcAsyncIOTransport,
)
from google.cloud.aiplatform_v1.types.pipeline_job import PipelineTaskDetail
from google.protobuf import json_format

from tests.waiting import until
from tests.wire.control import PARENT, Clients, emulator

ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")
ROOT = "gs://pipelines/root"


class Pipelines:
    """The pipeline jobs of one emulator."""

    def __init__(self, jobs: Clients) -> None:
        transport = PipelineServiceGrpcAsyncIOTransport(channel=jobs.channel)
        self.client = PipelineServiceAsyncClient(transport=transport)
        self.jobs = jobs
        self.buckets = Path()
        """The folder of the emulator's buckets, where it is known."""

    async def create(self, spec: Mapping[str, Any], id: str = "", **more: Any) -> PipelineJob:
        runtime = {"gcs_output_directory": ROOT, **more.pop("runtime_config", {})}
        job = {"display_name": "run", "pipeline_spec": spec, "runtime_config": runtime, **more}
        request = {"parent": PARENT, "pipeline_job": job, "pipeline_job_id": id}
        return await self.client.create_pipeline_job(request, timeout=60)

    async def get(self, name: str) -> PipelineJob:
        return await self.client.get_pipeline_job(name=name, timeout=60)

    async def reach(self, name: str, *states: str) -> PipelineJob:
        """The job once it is in one of these states."""

        async def look() -> PipelineJob | None:
            job = await self.get(name)
            state = job.state.name.removeprefix("PIPELINE_STATE_")
            assert state in states or state not in ENDED, job.error
            return job if state in states else None

        found: PipelineJob = await until(look, f"{name} to be {' or '.join(states)}")
        return found

    async def run(self, spec: Mapping[str, Any], **more: Any) -> PipelineJob:
        made = await self.create(spec, **more)
        return await self.reach(made.name, *ENDED)


@asynccontextmanager
async def pipelines() -> AsyncIterator[Pipelines]:
    """An emulator in this process."""
    async with emulator() as (running, clients):
        found = Pipelines(clients)
        found.buckets = running.state.buckets
        yield found


def tasks(job: PipelineJob) -> dict[str, PipelineTaskDetail]:
    """The details by path: the names of the tasks from the top, joined by `/`."""
    return {task.task_unique_name: task for task in job.job_detail.task_details if task.task_unique_name}


def states(job: PipelineJob) -> dict[str, str]:
    return {path: task.state.name for path, task in tasks(job).items()}


def said(task: PipelineTaskDetail, side: str) -> dict[str, Any]:
    """The parameters of one `side`, input or output."""
    metadata = json_format.MessageToDict(PipelineTaskDetail.pb(task).execution.metadata)
    named = f"{side}:"
    return {key.removeprefix(named): value for key, value in metadata.items() if key.startswith(named)}


# Specs


def container(*script: str, image: str = "alpine") -> dict[str, Any]:
    """An executor that runs a shell script; what follows it are its arguments `$0`, `$1`, …."""
    return {"container": {"image": image, "command": ["sh", "-c"], "args": list(script)}}


def leaf(label: str, inputs: Mapping[str, Any] | None = None, **outputs: str) -> dict[str, Any]:
    """A component that an executor runs; parameters by name with their types."""
    found: dict[str, Any] = {"executorLabel": label}
    if inputs:
        found["inputDefinitions"] = {"parameters": {name: _typed(kind) for name, kind in inputs.items()}}
    if outputs:
        found["outputDefinitions"] = {"parameters": {k: _typed(v) for k, v in outputs.items()}}
    return found


def _typed(kind: Any) -> dict[str, Any]:
    return kind if isinstance(kind, dict) else {"parameterType": kind}


def task(component: str, *, after: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    inputs = {name: _given(value) for name, value in more.pop("inputs", {}).items()}
    return {
        "componentRef": {"name": component},
        "dependentTasks": list(after),
        "inputs": {"parameters": inputs},
        "taskInfo": {"name": more.pop("title", component)},
        **more,
    }


def _given(value: Any) -> dict[str, Any]:
    if isinstance(value, tuple):
        return {"taskOutputParameter": {"producerTask": value[0], "outputParameterKey": value[1]}}
    if isinstance(value, dict):
        return value
    return {"runtimeValue": {"constant": value}}


def above(name: str) -> dict[str, Any]:
    """An input of the component around a task."""
    return {"componentInputParameter": name}


def spec(
    tasks: Mapping[str, Any], components: Mapping[str, Any], executors: Mapping[str, Any], **root: Any
) -> dict[str, Any]:
    """A pipeline; `parameters` are those of its root."""
    found = {
        "schemaVersion": "2.1.0",
        "sdkVersion": "kfp-2.17.0",
        "pipelineInfo": {"name": "shapes"},
        "root": {"dag": {"tasks": dict(tasks)}},
        "components": dict(components),
        "deploymentSpec": {"executors": dict(executors)},
    }
    if "parameters" in root:
        found["root"]["inputDefinitions"] = {  # type: ignore[index]
            "parameters": {name: _typed(kind) for name, kind in root["parameters"].items()}
        }
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]
