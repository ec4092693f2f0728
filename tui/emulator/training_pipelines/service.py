"""PipelineService for training pipelines: create, get, list, cancel, delete.

Vertex does not document the following behaviour, so the emulator chooses it: a pipeline names its custom job
right after its creation; cancelling an ended pipeline and deleting a running one are FAILED_PRECONDITION;
deleting a pipeline does not delete its custom job; the custom job does not inherit the labels.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from google.cloud.aiplatform_v1.types import pipeline_service

from tui.emulator.interfaces import JobRecord
from tui.emulator.messages import Pb
from tui.emulator.resources.known import PersistentResources
from tui.emulator.rpc.methods import refuse
from tui.emulator.training_pipelines.inputs import read_custom_task
from tui.emulator.training_pipelines.table import (
    TrainingPipeline,
    TrainingPipelinePb,
    TrainingPipelineRecord,
    TrainingPipelineTable,
)
from tui.emulator.vertex.filter_fields import PIPELINE_STATE, fields_of, text_field
from tui.emulator.vertex.job_handlers import JobHandlers, JobRunner, JobType
from tui.emulator.vertex.operations import Operations, log_record
from tui.emulator.vertex.resource_requests import creation_parent
from tui.emulator.vertex.validate import below, resource_problems, spec_problems
from tui.emulator.vertex.validate_pools import Problem

SERVICE = "google.cloud.aiplatform.v1.PipelineService"
TRAINING_PIPELINE_FIELDS = fields_of(
    PIPELINE_STATE, training_task_definition=text_field("training_task_definition")
)
"""Fields of ListTrainingPipelinesRequest.filter."""


class TrainedModels(Protocol):
    """The part of `ModelService` that this service uses."""

    def check_trained(self, parent: str, pipeline: Pb) -> None:
        """Raise WireError for a model that could not be uploaded."""


class TrainingPipelineServer(JobHandlers[TrainingPipeline]):
    """RPC handlers of training pipelines."""

    TYPE = JobType(
        SERVICE, pipeline_service, "TrainingPipeline", "training pipeline", TrainingPipelinePb,
        TrainingPipelineRecord.COLLECTION, TRAINING_PIPELINE_FIELDS,
    )  # fmt: skip

    def __init__(
        self,
        table: TrainingPipelineTable,
        runner: JobRunner[TrainingPipeline],
        operations: Operations,
        resources: PersistentResources,
        models: TrainedModels,
    ) -> None:
        super().__init__(table, runner, operations)
        self._table, self._resources, self._models = table, resources, models

    def check(self, request: Pb) -> None:
        _, location = creation_parent(request.parent)
        requested = request.training_pipeline
        job_spec = read_custom_task(requested)
        refuse(_problems(requested, job_spec, location))
        self._resources.check(job_spec, request.parent, "training_pipeline.training_task_inputs")
        self._models.check_trained(request.parent, requested)

    async def _store(self, project: str, location: str, requested: Pb) -> TrainingPipeline:
        return await self._table.create_with_job(project, location, requested, read_custom_task(requested))

    def _unused_log(self, job: TrainingPipeline) -> JobRecord | None:
        # The log of a deleted custom job was retained for the pipeline.
        deleted = self._table.custom_job_of(job) is None
        return replace(log_record(job.record), id=job.job_id) if deleted else None


def _problems(pipeline: Pb, job_spec: Pb, location: str) -> list[Problem]:
    """Return every reason to refuse a training pipeline whose task inputs are `job_spec`; the result is empty
    if it is valid."""
    return [
        *below("training_pipeline", resource_problems(pipeline, location)),
        *below("training_pipeline.training_task_inputs", spec_problems(job_spec)),
    ]
