"""All training pipelines in memory, each change on disk first. Each has one custom job that does its work."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from google.cloud.aiplatform_v1.types import pipeline_state
from google.cloud.aiplatform_v1.types import training_pipeline as training_pipeline_types

from tui.emulator.interfaces import CustomJobPb, JobRecord, ResourceRecord
from tui.emulator.messages import Pb, copied, current_time, set_created
from tui.emulator.vertex.job_table import CustomJob
from tui.emulator.vertex.resource_table import ResourceTable, TableResource

State = pipeline_state.PipelineState
TrainingPipelinePb = training_pipeline_types.TrainingPipeline.pb()
"""The plain protobuf class of a TrainingPipeline."""
_INPUT_FIELDS = (
    "display_name", "training_task_definition", "training_task_inputs", "labels", "model_id",
    "parent_model",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TrainingPipelineRecord(ResourceRecord):
    """Identity of a training pipeline."""

    COLLECTION = "trainingPipelines"


@dataclass(eq=False, slots=True)
class TrainingPipeline(TableResource):
    """A training pipeline that exists. `job_id` is its custom job's."""

    record: TrainingPipelineRecord
    job_id: str

    TERMINAL = frozenset(
        {State.PIPELINE_STATE_SUCCEEDED, State.PIPELINE_STATE_FAILED, State.PIPELINE_STATE_CANCELLED}
    )


class TrainingPipelineTable(ResourceTable[TrainingPipeline]):
    """Training pipelines by id, and in the order of their keys."""

    TABLE, BODY, PB = "training_pipelines", "pipeline", TrainingPipelinePb

    def _read(self, db: sqlite3.Connection) -> Iterator[TrainingPipeline]:
        rows = db.execute("SELECT id, project, location, pipeline, job FROM training_pipelines")
        for id, project, location, body, job_id in rows:
            record = TrainingPipelineRecord(project, location, str(id))
            yield TrainingPipeline(record, TrainingPipelinePb.FromString(body), str(job_id))

    def custom_job_of(self, resource: TrainingPipeline) -> CustomJob | None:
        job: CustomJob | None = self._jobs.get(resource.job_id)
        return job

    def needs_log(self, job: JobRecord) -> bool:
        return any(pipeline.job_id == job.id for pipeline in self.all())

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
        record = TrainingPipelineRecord(project, location, str(await self._database.next_id()))
        custom_job = CustomJobPb(display_name=f"{requested.display_name}-custom-job", job_spec=job_spec)
        if requested.HasField("encryption_spec"):
            custom_job.encryption_spec.CopyFrom(requested.encryption_spec)
        job, addition = await self._jobs.prepare(project, location, custom_job)
        pipeline = TrainingPipeline(record, _new_pb(record, requested, job.record), job.record.id)

        def write(db: sqlite3.Connection) -> None:
            addition.write(db)
            _put(db, pipeline, pipeline.pb)

        await self._database.write(write)
        addition.show()
        self.add(pipeline)
        return pipeline

    async def _update(self, pipeline: TrainingPipeline, change: Callable[[Pb], None]) -> None:
        async with pipeline.lock:
            pb = copied(pipeline.pb)
            change(pb)
            pb.update_time.CopyFrom(current_time())
            await self._database.write(lambda db: _put(db, pipeline, pb))
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
    set_created(pb)
    return pb


def _put(db: sqlite3.Connection, pipeline: TrainingPipeline, pb: Pb) -> None:
    record = pipeline.record
    values = int(record.id), record.project, record.location, int(pipeline.job_id), pb.SerializeToString()
    db.execute("INSERT OR REPLACE INTO training_pipelines VALUES (?,?,?,?,?)", values)
