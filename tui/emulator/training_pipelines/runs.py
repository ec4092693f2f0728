"""Mirrors the state of each training pipeline's custom job, which the scheduler runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from google.rpc import code_pb2

from tui.emulator.database import StorageFull
from tui.emulator.messages import Pb, current_time
from tui.emulator.rpc.methods import WireError
from tui.emulator.runs.job_run import store_with_retry
from tui.emulator.runs.job_runs import JobRuns
from tui.emulator.runs.scheduler import CustomJobRuns
from tui.emulator.training_pipelines.table import State, TrainingPipeline, TrainingPipelineTable
from tui.emulator.vertex.job_table import CustomJob, CustomJobTable
from tui.emulator.vertex.job_table import State as JobState

Upload = Callable[[str, Pb], Awaitable[tuple[str, str]]]
_MIRRORED = ("RUNNING", "SUCCEEDED", "FAILED", "CANCELLING", "CANCELLED")
_STATES: dict[int, int] = {
    getattr(JobState, f"JOB_STATE_{name}"): getattr(State, f"PIPELINE_STATE_{name}") for name in _MIRRORED
}
# A pipeline runs while its job is provisioned (docs/facts/vertex.md 16).
_STATES[JobState.JOB_STATE_QUEUED] = State.PIPELINE_STATE_PENDING
_STATES[JobState.JOB_STATE_PENDING] = State.PIPELINE_STATE_RUNNING
# PipelineState has no counterpart for a job that never received its machines.
_STATES[JobState.JOB_STATE_EXPIRED] = State.PIPELINE_STATE_FAILED


class TrainingPipelineRuns(JobRuns[TrainingPipeline]):
    """Follows every training pipeline until `close` is called. The custom jobs continue after that."""

    def __init__(
        self, table: TrainingPipelineTable, jobs: CustomJobTable, scheduler: CustomJobRuns, upload: Upload
    ) -> None:
        """Set the parts. `upload` stores a succeeded pipeline's model and returns its name and version."""
        super().__init__(table)
        self._table = table
        self._jobs = jobs
        self._scheduler = scheduler
        self._upload = upload

    def resume(self, job: TrainingPipeline) -> None:
        self._begin(self._follow(job), f"training pipeline {job.record.id}")

    def admit(self, pipeline: TrainingPipeline) -> None:
        """Run the custom job of a new pipeline."""
        job = self._jobs.get(pipeline.job_id)
        assert job is not None
        self._scheduler.admit(job)
        self.resume(pipeline)

    async def cancel(self, pipeline: TrainingPipeline) -> None:
        """Cancel the custom job. The pipeline's state follows before this returns.

        Raises WireError when the job has ended in the meantime, or the request could not be stored.
        """
        job = self._jobs.get(pipeline.job_id)
        if job is not None and not job.terminal:
            await self._scheduler.cancel(job)
        await self._mirror(pipeline, job)

    async def _follow(self, pipeline: TrainingPipeline) -> None:
        job = self._jobs.get(pipeline.job_id)
        while True:
            changed = job.changed if job is not None else asyncio.Event()
            await self._mirror(pipeline, job)
            if pipeline.terminal:
                return
            await changed.wait()

    async def _mirror(self, pipeline: TrainingPipeline, job: CustomJob | None) -> None:
        """Copy the job's state and name to the pipeline where they differ."""
        named = pipeline.pb.HasField("training_task_metadata")
        if pipeline.terminal or (job is not None and named and pipeline.pb.state == _STATES[job.pb.state]):
            return

        async def store() -> None:
            uploaded = await self._uploaded(pipeline, job)

            def change(pb: Pb) -> None:
                if job is None:
                    _lose_job(pb)
                elif pb.state not in TrainingPipeline.TERMINAL:
                    _copy_state(pb, job.pb)
                    _note_model(pb, uploaded)

            await self._table.update(pipeline, change)

        await store_with_retry(store, pipeline.record.name)

    async def _uploaded(
        self, pipeline: TrainingPipeline, job: CustomJob | None
    ) -> tuple[str, str] | WireError | None:
        """Return the name and version of the pipeline's model after its job succeeded, or the upload's
        error."""
        succeeded = job is not None and job.pb.state == JobState.JOB_STATE_SUCCEEDED
        if not succeeded or not pipeline.pb.HasField("model_to_upload"):
            return None
        try:
            return await self._upload(pipeline.record.parent, pipeline.pb)
        except StorageFull:
            raise
        except WireError as error:
            return error


def _copy_state(pb: Pb, job: Pb) -> None:
    pb.state = _STATES[job.state]
    pb.training_task_metadata.struct_value.update({"backingCustomJob": job.name})
    if job.HasField("start_time"):
        pb.start_time.CopyFrom(job.start_time)
    if job.HasField("end_time"):
        pb.end_time.CopyFrom(job.end_time)
    if job.HasField("error"):
        pb.error.CopyFrom(job.error)


def _note_model(pb: Pb, uploaded: tuple[str, str] | WireError | None) -> None:
    """Record the pipeline's model, or fail the pipeline because the model can't be uploaded."""
    if isinstance(uploaded, WireError):
        pb.state = State.PIPELINE_STATE_FAILED
        pb.error.code, pb.error.message = uploaded.code, f"The model can't be uploaded: {uploaded.message}"
    elif uploaded is not None:
        pb.model_to_upload.name, pb.model_to_upload.version_id = uploaded


def _lose_job(pb: Pb) -> None:
    """Fail the pipeline: its custom job ended and was deleted before the server stored the job's end here."""
    pb.state = State.PIPELINE_STATE_FAILED
    pb.end_time.CopyFrom(current_time())
    pb.error.code = code_pb2.INTERNAL
    pb.error.message = "Internal error: the custom job was deleted before this pipeline recorded its end."
