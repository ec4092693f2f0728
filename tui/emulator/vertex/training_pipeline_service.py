"""PipelineService for training pipelines: create, get, list, cancel, delete.

Chosen here, not documented for Vertex: a pipeline has its custom job from the start; cancelling an ended
pipeline and deleting one that has not ended are FAILED_PRECONDITION; deleting a pipeline leaves its custom
job; labels are not handed on to the custom job.
"""

from __future__ import annotations

from typing import Any, Protocol

from google.cloud.aiplatform_v1.types import pipeline_service
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2

from tui.emulator.database import Pb
from tui.emulator.interfaces import TrainingPipelinePb, TrainingPipelineRecord
from tui.emulator.resources.known import PersistentResources
from tui.emulator.rpc.methods import Method, failed_precondition, invalid
from tui.emulator.rpc.paging import keep_only, mask_fields
from tui.emulator.vertex.filter_fields import TRAINING_PIPELINE_FIELDS
from tui.emulator.vertex.operations import TRAINING_PIPELINE_KIND, Operations
from tui.emulator.vertex.resource_requests import creation_parent, find, list_page
from tui.emulator.vertex.training_pipeline_inputs import read_custom_task
from tui.emulator.vertex.training_pipeline_table import State, TrainingPipeline, TrainingPipelineTable
from tui.emulator.vertex.validate import training_pipeline_problems

SERVICE = "google.cloud.aiplatform.v1.PipelineService"
ListResponsePb = pipeline_service.ListTrainingPipelinesResponse.pb()


class TrainingPipelineRunner(Protocol):
    """The part of `TrainingPipelines` that this service uses."""

    def admit(self, pipeline: TrainingPipeline) -> None:
        """Run the custom job of a new pipeline."""

    async def cancel(self, pipeline: TrainingPipeline) -> None:
        """Request its end; return when the request is stored."""


class TrainedModels(Protocol):
    """The part of `ModelService` that this service uses."""

    def check_trained(self, parent: str, pipeline: Pb) -> None:
        """Raise WireError for a model that could not be uploaded."""


class TrainingPipelineServer:
    """Handlers of one emulator. They take and return plain protobuf."""

    def __init__(
        self,
        table: TrainingPipelineTable,
        runner: TrainingPipelineRunner,
        operations: Operations,
        resources: PersistentResources,
        models: TrainedModels,
    ) -> None:
        self._table = table
        self._runner = runner
        self._operations = operations
        self._resources = resources
        self._models = models

    def methods(self) -> list[Method]:
        """The RPCs served here."""
        types, pb = pipeline_service, TrainingPipelinePb
        table: list[tuple[str, Any, Any, Any]] = [
            ("CreateTrainingPipeline", types.CreateTrainingPipelineRequest, pb, self.create),
            ("GetTrainingPipeline", types.GetTrainingPipelineRequest, pb, self.get),
            ("ListTrainingPipelines", types.ListTrainingPipelinesRequest, ListResponsePb, self.list),
            ("CancelTrainingPipeline", types.CancelTrainingPipelineRequest, empty_pb2.Empty, self.cancel),
            (
                "DeleteTrainingPipeline",
                types.DeleteTrainingPipelineRequest,
                operations_pb2.Operation,
                self.delete,
            ),
        ]
        return [Method(SERVICE, name, req.pb(), res, handler) for name, req, res, handler in table]

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

    async def get(self, request: Pb) -> Pb:
        return self._find(request.name).pb

    async def list(self, request: Pb) -> Pb:
        fields = mask_fields(request.read_mask.paths, TrainingPipelinePb.DESCRIPTOR)
        page, token = list_page(self._table, request, TRAINING_PIPELINE_FIELDS)
        reply = ListResponsePb(training_pipelines=[found.pb for found in page], next_page_token=token)
        keep_only(reply.training_pipelines, fields)
        return reply

    async def cancel(self, request: Pb) -> empty_pb2.Empty:
        pipeline = self._find(request.name)
        if pipeline.terminal:
            name, state = pipeline.record.name, State(pipeline.pb.state).name
            raise failed_precondition(
                name, f"The training pipeline {name} has ended ({state}); it can't be cancelled."
            )
        await self._runner.cancel(pipeline)
        return empty_pb2.Empty()

    async def delete(self, request: Pb) -> operations_pb2.Operation:
        pipeline = self._find(request.name)
        if not pipeline.terminal:
            name, state = pipeline.record.name, State(pipeline.pb.state).name
            raise failed_precondition(
                name,
                f"The training pipeline {name} is in {state}; cancel it and wait for its end, then "
                "delete it.",
            )
        return await self._operations.delete_training_pipeline(self._table, pipeline)

    def _find(self, name: str) -> TrainingPipeline:
        return find(self._table, TrainingPipelineRecord.COLLECTION, TRAINING_PIPELINE_KIND, name)
