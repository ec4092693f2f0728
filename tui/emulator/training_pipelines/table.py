"""Training pipelines in memory; each change is written to disk first. Each pipeline has one custom job as
worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from google.cloud.aiplatform_v1.types import pipeline_state
from google.cloud.aiplatform_v1.types import training_pipeline as training_pipeline_types

from tui.emulator.database import together
from tui.emulator.interfaces import CustomJobPb, JobRecord, ResourceRecord
from tui.emulator.messages import Pb
from tui.emulator.vertex.job_table import CustomJob
from tui.emulator.vertex.resource_table import ResourceTable, TableResource

State = pipeline_state.PipelineState
TrainingPipelinePb = training_pipeline_types.TrainingPipeline.pb()
"""The plain protobuf class of a TrainingPipeline."""


@dataclass(frozen=True, slots=True)
class TrainingPipelineRecord(ResourceRecord):
    """Identity of a training pipeline."""

    COLLECTION = "trainingPipelines"


@dataclass(eq=False, slots=True)
class TrainingPipeline(TableResource):
    """A stored training pipeline. `job_id` is the id of its custom job."""

    record: TrainingPipelineRecord
    job_id: str

    TERMINAL = frozenset(
        {State.PIPELINE_STATE_SUCCEEDED, State.PIPELINE_STATE_FAILED, State.PIPELINE_STATE_CANCELLED}
    )


class TrainingPipelineTable(ResourceTable[TrainingPipeline]):
    """Training pipelines by id and in list order."""

    TABLE, BODY, PB, RECORD = "training_pipelines", "pipeline", TrainingPipelinePb, TrainingPipelineRecord
    EXTRA = ("job",)
    INPUTS = frozenset((
        "display_name", "training_task_definition", "training_task_inputs", "labels", "model_id",
        "parent_model", "encryption_spec", "model_to_upload",
    ))  # fmt: skip
    INITIAL = State.PIPELINE_STATE_PENDING

    def _restored(self, record: TrainingPipelineRecord, pb: Pb, *extra: Any) -> TrainingPipeline:
        return TrainingPipeline(record, pb, str(extra[0]))

    def _columns(self, pipeline: TrainingPipeline) -> dict[str, Any]:
        return {"job": pipeline.job_id}

    def custom_job_of(self, resource: TrainingPipeline) -> CustomJob | None:
        job: CustomJob | None = self._jobs.get(resource.job_id)
        return job

    def needs_log(self, job: JobRecord) -> bool:
        return any(pipeline.job_id == job.id for pipeline in self.all())

    async def create_with_job(
        self, project: str, location: str, requested: Pb, job_spec: Pb
    ) -> TrainingPipeline:
        """Store a new training pipeline and its custom job in one transaction.

        Raises StorageFull when they could not be written; then neither exists.
        """
        return await self._database.finish(self._create_with_job(project, location, requested, job_spec))

    async def _create_with_job(
        self, project: str, location: str, requested: Pb, job_spec: Pb
    ) -> TrainingPipeline:
        record = TrainingPipelineRecord(project, location, str(await self._database.next_id()))
        custom_job = CustomJobPb(display_name=f"{requested.display_name}-custom-job", job_spec=job_spec)
        if requested.HasField("encryption_spec"):
            custom_job.encryption_spec.CopyFrom(requested.encryption_spec)
        job, addition = await self._jobs.prepare(project, location, custom_job)
        pb = self.new_pb(record, requested)
        pipeline = TrainingPipeline(record, pb, job.record.id)
        await self._database.make(together(addition, self.addition(pipeline)))
        return pipeline
