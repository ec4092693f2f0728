"""Training pipelines of Vertex AI. Cancelling one cancels its custom job; deleting it leaves the job."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from google.cloud.aiplatform_v1.types import pipeline_service, training_pipeline
from google.cloud.aiplatform_v1.types.custom_job import CustomJobSpec
from google.cloud.aiplatform_v1.types.pipeline_state import PipelineState
from google.protobuf import json_format

from tui.backends.vertex.jobs import convert
from tui.backends.vertex.jobs.convert import groups_of, job_of, longest_wait_of, pattern_of, strategy_of
from tui.backends.vertex.jobs.resource import ACTIVE_PIPELINES, Resource
from tui.backends.vertex.jobs.service import VertexJobs
from tui.domain.core.job import Job, infer_replicas
from tui.domain.core.states import JobState
from tui.domain.core.task import Task
from tui.domain.spec.custom_job_spec import text_arguments

KIND = "training_pipeline"
_STATES: dict[int, str] = {state.value: state.name for state in iter(PipelineState)}  # type: ignore[call-overload]
_SpecPb = CustomJobSpec.pb()
_BACKING = {
    "backingCustomJob": "custom-job",
    "backingHyperparameterTuningJob": "hyperparameter-tuning-job",
}
"""Fields of trainingTaskMetadata that name the backing job (docs/facts/vertex.md 12.4)."""


def job(pb: Any, context: str) -> Job:
    """Convert a TrainingPipeline message to a domain job."""
    shown = _with_inputs(job_of(pb, context, KIND, _STATES), pb)
    return replace(
        shown,
        replicas=infer_replicas(shown.groups, shown.state, shown.error),
        tasks=(_task(pb, shown.state),),
    )


def _with_inputs(shown: Job, pb: Any) -> Job:
    """Return the job with the pipeline's inputs, and without worker pools unless the inputs are custom
    code."""
    spec = _SpecPb()
    try:
        inputs = text_arguments(json_format.MessageToDict(pb.training_task_inputs))
        json_format.ParseDict(inputs, spec, ignore_unknown_fields=True)
    except (json_format.ParseError, json_format.SerializeToJsonError, AttributeError, TypeError):
        return shown
    limit = spec.scheduling.timeout
    return replace(
        shown,
        groups=groups_of(spec.worker_pool_specs),
        progress_pattern=pattern_of(spec.worker_pool_specs),
        strategy=strategy_of(spec.scheduling),
        longest_wait=longest_wait_of(spec.scheduling),
        persistent_resource=spec.persistent_resource_id,
        timeout=timedelta(seconds=limit.seconds) if spec.scheduling.HasField("timeout") else None,
    )


def _task(pb: Any, state: JobState) -> Task:
    """Return the job that does the pipeline's work. The job has no name until the service has created it."""
    fields = pb.training_task_metadata.struct_value.fields
    for field, id in _BACKING.items():
        if field in fields:
            return Task(id, state, fields[field].string_value)
    definition = pb.training_task_definition.rpartition("/")[2]
    return Task("custom-job" if definition.startswith("custom_task") else definition or "task", state)


CHILD = "-custom-job"
"""Suffix that the custom job's display name adds to the pipeline's (docs/facts/vertex.md 12.4)."""


class TrainingPipelines(VertexJobs):
    """Training pipelines of one context. See PipelineService."""

    resource = Resource(
        noun="training_pipeline",
        types=pipeline_service,
        message=training_pipeline.TrainingPipeline,
        client=lambda clients, region: clients.pipelines(region),
        active_states=ACTIVE_PIPELINES,
        convert=job,
        convert_listed=lambda pb, context: replace(job(pb, context), replicas=()),
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
