"""All training pipelines in memory, each change on disk first. Each has one custom job that does its work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from google.cloud.aiplatform_v1.types import pipeline_state

from tui.emulator.database import Database, JobRow, Pb, TrainingPipelineRow
from tui.emulator.faults import clock
from tui.emulator.interfaces import CustomJobPb, JobRecord, TrainingPipelinePb, TrainingPipelineRecord
from tui.emulator.vertex.job_table import JobTable, new_job
from tui.emulator.vertex.resource_table import Resource, ResourceTable, timestamp

State = pipeline_state.PipelineState
_INPUT_FIELDS = (
    "display_name", "training_task_definition", "training_task_inputs", "labels", "model_id",
    "parent_model",
)  # fmt: skip


@dataclass(eq=False, slots=True)
class TrainingPipeline(Resource):
    """A training pipeline that exists. `job_id` is its custom job's."""

    record: TrainingPipelineRecord
    job_id: str

    TERMINAL = frozenset(
        {State.PIPELINE_STATE_SUCCEEDED, State.PIPELINE_STATE_FAILED, State.PIPELINE_STATE_CANCELLED}
    )


class TrainingPipelineTable(ResourceTable[TrainingPipeline]):
    """Training pipelines by id, and in the order of their keys."""

    def __init__(self, database: Database, jobs: JobTable) -> None:
        super().__init__()
        self._database = database
        self._jobs = jobs

    def load(self, rows: list[TrainingPipelineRow]) -> None:
        """Take what the database had at the start."""
        for row in rows:
            self.add(TrainingPipeline(row.record, row.pb, row.job_id))

    async def create(self, project: str, location: str, requested: Pb, job_spec: Pb) -> TrainingPipeline:
        """Store a new training pipeline and its custom job, both QUEUED, in one transaction.

        Raises:
            StorageFull: when they could not be written; then there is neither.
        """
        return await self.finish(self._create(project, location, requested, job_spec))

    async def update(self, pipeline: TrainingPipeline, change: Callable[[Pb], None]) -> None:
        """Apply `change` to a copy of the resource, store it, then show it.

        Raises:
            StorageFull: when it could not be written; then nothing has changed.
        """
        await self.finish(self._update(pipeline, change))

    async def _create(self, project: str, location: str, requested: Pb, job_spec: Pb) -> TrainingPipeline:
        number, job_number = await self._database.next_id(), await self._database.next_id()
        record = TrainingPipelineRecord(project, location, str(number))
        custom_job = CustomJobPb(display_name=f"{requested.display_name}-custom-job", job_spec=job_spec)
        if requested.HasField("encryption_spec"):
            custom_job.encryption_spec.CopyFrom(requested.encryption_spec)
        job = new_job(JobRecord(project, location, str(job_number)), custom_job)
        pipeline = TrainingPipeline(record, _new_pb(record, requested, job.record), job.record.id)
        await self._database.create_training_pipeline(
            TrainingPipelineRow(record, pipeline.pb, pipeline.job_id), JobRow(job.record, job.pb, job.control)
        )
        self._jobs.add(job)
        self.add(pipeline)
        return pipeline

    async def _update(self, pipeline: TrainingPipeline, change: Callable[[Pb], None]) -> None:
        async with pipeline.lock:
            pb = TrainingPipelinePb()
            pb.CopyFrom(pipeline.pb)
            change(pb)
            pb.update_time.CopyFrom(timestamp(clock.time()))
            await self._database.save_training_pipeline(
                TrainingPipelineRow(pipeline.record, pb, pipeline.job_id)
            )
            pipeline.pb = pb


def _new_pb(record: TrainingPipelineRecord, requested: Pb, job: JobRecord) -> Pb:
    """The resource with the request's input fields and the name of its custom job."""
    pb = TrainingPipelinePb(
        name=record.name,
        state=State.PIPELINE_STATE_QUEUED,
        **{name: getattr(requested, name) for name in _INPUT_FIELDS},
    )
    pb.training_task_metadata.struct_value.update({"backingCustomJob": job.name})
    for name in ("encryption_spec", "model_to_upload"):
        if requested.HasField(name):
            getattr(pb, name).CopyFrom(getattr(requested, name))
    now = timestamp(clock.time())
    pb.create_time.CopyFrom(now)
    pb.update_time.CopyFrom(now)
    return pb
