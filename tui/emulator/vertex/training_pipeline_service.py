"""PipelineService for training pipelines: create, get, list, cancel, delete.

Chosen here, not documented for Vertex: a pipeline has its custom job from the start; cancelling an ended
pipeline and deleting one that has not ended are FAILED_PRECONDITION; deleting a pipeline leaves its custom
job; labels are not handed on to the custom job.
"""

from __future__ import annotations

from typing import Protocol

from google.cloud.aiplatform_v1.types import pipeline_service
from google.longrunning import operations_pb2

from tui.emulator.database import Pb
from tui.emulator.interfaces import TrainingPipelinePb, TrainingPipelineRecord
from tui.emulator.resources.known import PersistentResources
from tui.emulator.rpc.methods import invalid
from tui.emulator.vertex.filter_fields import TRAINING_PIPELINE_FIELDS
from tui.emulator.vertex.job_handlers import JobHandlers, JobType, Runner
from tui.emulator.vertex.operations import Operations
from tui.emulator.vertex.resource_requests import creation_parent
from tui.emulator.vertex.training_pipeline_inputs import read_custom_task
from tui.emulator.vertex.training_pipeline_table import TrainingPipeline, TrainingPipelineTable
from tui.emulator.vertex.validate import training_pipeline_problems

SERVICE = "google.cloud.aiplatform.v1.PipelineService"


class TrainedModels(Protocol):
    """The part of `ModelService` that this service uses."""

    def check_trained(self, parent: str, pipeline: Pb) -> None:
        """Raise WireError for a model that could not be uploaded."""


class TrainingPipelineServer(JobHandlers[TrainingPipeline]):
    """Handlers of one emulator."""

    TYPE = JobType(
        SERVICE, pipeline_service, "TrainingPipeline", "training pipeline", TrainingPipelinePb,
        TrainingPipelineRecord.COLLECTION, TRAINING_PIPELINE_FIELDS,
    )  # fmt: skip

    def __init__(
        self,
        table: TrainingPipelineTable,
        runner: Runner[TrainingPipeline],
        operations: Operations,
        resources: PersistentResources,
        models: TrainedModels,
    ) -> None:
        super().__init__(table, runner)
        self._table = table
        self._operations = operations
        self._resources = resources
        self._models = models

    async def create(self, request: Pb) -> Pb:
        """Check, store, admit. The pipeline and its custom job are on disk before the reply."""
        project, location = creation_parent(request.parent)
        requested = request.training_pipeline
        job_spec = read_custom_task(requested)
        problems = training_pipeline_problems(requested, job_spec, location)
        if problems:
            raise invalid(*problems)
        self._resources.check(job_spec, request.parent, "training_pipeline.training_task_inputs")
        self._models.check_trained(request.parent, requested)
        pipeline = await self._table.create(project, location, requested, job_spec)
        self._runner.admit(pipeline)
        return pipeline.pb

    async def _delete(self, job: TrainingPipeline) -> operations_pb2.Operation:
        return await self._operations.delete_training_pipeline(self._table, job)
