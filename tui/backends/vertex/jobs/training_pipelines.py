"""Training pipelines of Vertex AI. Cancelling one cancels its custom job too; deleting one does not delete
it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from google.cloud.aiplatform_v1.types import pipeline_service, training_pipeline

from tui.backends.vertex.jobs import convert, training_pipeline_convert
from tui.backends.vertex.jobs.resource import ACTIVE_PIPELINES, Resource
from tui.backends.vertex.jobs.service import VertexJobs
from tui.domain.core.job import Job

CHILD = "-custom-job"
"""Suffix that the service adds to a pipeline's display name for its custom job (docs/facts/vertex.md
12.4)."""


def _listed(pb: Any, context: str) -> Job:
    return replace(training_pipeline_convert.job(pb, context), replicas=())


class TrainingPipelines(VertexJobs):
    """Training pipelines of one context, in PipelineService."""

    resource = Resource(
        noun="training_pipeline",
        title="training pipeline",
        collection="trainingPipelines",
        types=pipeline_service,
        message=training_pipeline.TrainingPipeline,
        client=lambda clients, region: clients.pipelines(region),
        list_fields=(),
        active_states=ACTIVE_PIPELINES,
        convert=training_pipeline_convert.job,
        convert_listed=_listed,
        body="trainingPipeline",
    )

    async def parent_of(self, job: Job) -> Job | None:
        stem = job.display_name.removesuffix(CHILD)
        if job.kind != convert.KIND or stem == job.display_name:
            return None
        pipelines = await self.named(stem)
        return next(
            (pipeline for pipeline in pipelines if job.name in {task.job for task in pipeline.tasks}), None
        )
