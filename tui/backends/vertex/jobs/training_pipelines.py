"""Training pipelines of Vertex AI. A cancel of one cancels its custom job too; a delete leaves that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from google.cloud.aiplatform_v1.types import pipeline_service, training_pipeline
from google.protobuf import json_format

from tui.backends.interface import InvalidRequest
from tui.backends.vertex.jobs import convert, training_pipeline_convert
from tui.backends.vertex.jobs.resource import Resource
from tui.backends.vertex.jobs.service import VertexJobs
from tui.domain.job import Job

CHILD = "-custom-job"
"""What the service adds to a pipeline's display name for its custom job's (vertex facts 12.4)."""
_Pb = training_pipeline.TrainingPipeline.pb()


def _message(resource: Mapping[str, Any]) -> Any:
    """A TrainingPipeline message. Raises InvalidRequest, naming the field that does not fit."""
    message = _Pb()
    try:
        json_format.ParseDict(dict(resource), message)
    except json_format.ParseError as error:
        raise InvalidRequest(
            f"The job does not have the form of a Vertex AI training pipeline: {error}",
            fix="Correct the profile's trainingPipeline.",
        ) from error
    return message


def _listed(pb: Any, context: str) -> Job:
    return replace(training_pipeline_convert.job(pb, context), replicas=())


class TrainingPipelines(VertexJobs):
    """PipelineService of one context."""

    resource = Resource(
        noun="training_pipeline",
        title="training pipeline",
        collection="trainingPipelines",
        types=pipeline_service,
        message=training_pipeline.TrainingPipeline,
        client=lambda clients, region: clients.pipelines(region),
        list_fields=(),
        active_states=(
            "PIPELINE_STATE_QUEUED",
            "PIPELINE_STATE_PENDING",
            "PIPELINE_STATE_RUNNING",
            "PIPELINE_STATE_CANCELLING",
            "PIPELINE_STATE_PAUSED",
        ),
        convert=training_pipeline_convert.job,
        convert_listed=_listed,
        parse=_message,
    )

    async def parent_of(self, job: Job) -> Job | None:
        stem = job.display_name.removesuffix(CHILD)
        if job.kind != convert.KIND or stem == job.display_name:
            return None
        found = await self.named(stem)
        return next((each for each in found if job.name in {task.job for task in each.tasks}), None)
