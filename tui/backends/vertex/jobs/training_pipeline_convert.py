"""TrainingPipeline messages into domain jobs."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from google.cloud.aiplatform_v1.types.custom_job import CustomJobSpec
from google.cloud.aiplatform_v1.types.pipeline_state import PipelineState
from google.protobuf import json_format

from tui.backends.vertex.jobs.convert import error_of, groups_of, pattern_of, region_of, strategy_of
from tui.backends.vertex.timestamps import moment
from tui.domain.job import Job, infer_replicas
from tui.domain.states import JobState, from_vertex
from tui.domain.task import Task
from tui.domain.vertex.custom_job_spec import text_arguments

KIND = "training_pipeline"
_STATES: dict[int, str] = {state.value: state.name for state in iter(PipelineState)}  # type: ignore[call-overload]
_SpecPb = CustomJobSpec.pb()
_BACKING = {
    "backingCustomJob": "custom-job",
    "backingHyperparameterTuningJob": "hyperparameter-tuning-job",
}
"""Fields of trainingTaskMetadata with the job that does the work (vertex facts 12.4)."""


def job(pb: Any, context: str) -> Job:
    """A TrainingPipeline message as a domain job."""
    native = _STATES.get(pb.state) or str(pb.state)
    state = from_vertex(native)
    error = error_of(pb)
    asked = _asked_for(pb, context)
    return replace(
        asked,
        state=state,
        native_state=native,
        create_time=moment(pb, "create_time"),
        start_time=moment(pb, "start_time"),
        end_time=moment(pb, "end_time"),
        update_time=moment(pb, "update_time"),
        labels=dict(pb.labels),
        error=error,
        replicas=infer_replicas(asked.groups, state, error),
        tasks=(_task(pb, state),),
    )


def _asked_for(pb: Any, context: str) -> Job:
    """What the pipeline's inputs say; without worker pools where they are not those of custom code."""
    found = Job(
        name=pb.name,
        id=pb.name.rpartition("/")[2],
        display_name=pb.display_name,
        state=JobState.UNKNOWN,
        native_state="",
        context=context,
        region=region_of(pb.name),
        kind=KIND,
    )
    spec = _SpecPb()
    try:
        inputs = text_arguments(json_format.MessageToDict(pb.training_task_inputs))
        json_format.ParseDict(inputs, spec, ignore_unknown_fields=True)
    except (json_format.ParseError, json_format.SerializeToJsonError, AttributeError, TypeError):
        return found
    limit = spec.scheduling.timeout
    return replace(
        found,
        groups=groups_of(spec.worker_pool_specs),
        progress_pattern=pattern_of(spec.worker_pool_specs),
        strategy=strategy_of(spec.scheduling),
        persistent_resource=spec.persistent_resource_id,
        timeout=timedelta(seconds=limit.seconds) if spec.scheduling.HasField("timeout") else None,
    )


def _task(pb: Any, state: JobState) -> Task:
    """The job that does the pipeline's work. It has no name until the service has created it."""
    fields = pb.training_task_metadata.struct_value.fields
    for field, id in _BACKING.items():
        if field in fields:
            return Task(id, state, fields[field].string_value)
    definition = pb.training_task_definition.rpartition("/")[2]
    return Task("custom-job" if definition.startswith("custom_task") else definition or "task", state)
