"""What several tests share with test_training_pipelines."""

from __future__ import annotations

from typing import Any

from google.cloud.aiplatform_v1.services.pipeline_service import PipelineServiceAsyncClient
from google.cloud.aiplatform_v1.services.pipeline_service.transports import (
    PipelineServiceGrpcAsyncIOTransport,
)
from google.cloud.aiplatform_v1.types import TrainingPipeline

from tests.waiting import until
from tests.wire.control import (
    PARENT,
    Clients,
    python,
)

CUSTOM_TASK = "gs://google-cloud-aiplatform/schema/trainingjob/definition/custom_task_1.0.0.yaml"
ENDED = {"PIPELINE_STATE_SUCCEEDED", "PIPELINE_STATE_FAILED", "PIPELINE_STATE_CANCELLED"}


def request(code: str = "pass", **changes: Any) -> dict[str, Any]:
    """A pipeline whose custom job runs `code`; `inputs` changes the training task's inputs."""
    inputs = {"worker_pool_specs": [python(code)], **changes.pop("inputs", {})}
    return {
        "display_name": "bert",
        "training_task_definition": CUSTOM_TASK,
        "training_task_inputs": inputs,
        **changes,
    }


class Pipelines:
    """The pipeline service of one emulator, and its clients for the jobs."""

    def __init__(self, jobs: Clients) -> None:
        self.jobs = jobs
        transport = PipelineServiceGrpcAsyncIOTransport(channel=jobs.channel)
        self.client = PipelineServiceAsyncClient(transport=transport)

    async def begin(self, code: str = "pass", parent: str = PARENT, **changes: Any) -> TrainingPipeline:
        return await self.client.create_training_pipeline(
            parent=parent, training_pipeline=request(code, **changes), timeout=60
        )

    async def create(self, code: str = "pass", parent: str = PARENT, **changes: Any) -> TrainingPipeline:
        """A pipeline as its creation returned it, and with its custom job, which it names later."""
        made = await self.begin(code, parent, **changes)

        async def named() -> Any:
            return (await self.get(made.name)).training_task_metadata

        made.training_task_metadata = await until(named, f"{made.name} to name its job")
        return made

    async def get(self, name: str) -> TrainingPipeline:
        return await self.client.get_training_pipeline(name=name, timeout=60)

    async def reach(self, name: str, state: str) -> TrainingPipeline:
        async def look() -> TrainingPipeline | None:
            found = await self.get(name)
            at = found.state.name
            assert at == f"PIPELINE_STATE_{state}" or at not in ENDED, (at, found.error)
            return found if at == f"PIPELINE_STATE_{state}" else None

        found: TrainingPipeline = await until(look, f"{name} to be {state}")
        return found

    async def listed(self, filter: str = "", **asked: Any) -> list[str]:
        pager = await self.client.list_training_pipelines(
            request={"parent": PARENT, "filter": filter, **asked}, timeout=60
        )
        return [found.display_name async for found in pager]


def child(pipeline: TrainingPipeline) -> str:
    return str(pipeline.training_task_metadata["backingCustomJob"])
