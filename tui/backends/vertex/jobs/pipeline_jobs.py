"""Pipeline jobs of Vertex AI with their tasks, which a list leaves out (docs/facts/vertex.md 11.3)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from google.cloud.aiplatform_v1.types import pipeline_job, pipeline_service
from google.cloud.aiplatform_v1.types.pipeline_failure_policy import PipelineFailurePolicy
from google.cloud.aiplatform_v1.types.pipeline_job import PipelineTaskDetail
from google.cloud.aiplatform_v1.types.pipeline_state import PipelineState
from google.protobuf import json_format

from tui.backends.vertex.jobs.convert import job_of
from tui.backends.vertex.jobs.resource import ACTIVE_PIPELINES, Resource
from tui.backends.vertex.jobs.service import VertexJobs
from tui.backends.vertex.timestamps import moment
from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.domain.core.task import Artifact, Task
from tui.domain.core.training_progress import Progress
from tui.domain.document.decoding import decode_json
from tui.domain.masking import mask_text
from tui.domain.pipeline.graph import dependencies
from tui.domain.pipeline.run import PipelineRun

KIND = "pipeline_job"
_STATES: dict[int, str] = {state.value: state.name for state in iter(PipelineState)}  # type: ignore[call-overload]
_TASK_NAMES: dict[int, str] = {
    state.value: state.name
    for state in iter(PipelineTaskDetail.State)  # type: ignore[call-overload]
}
_POLICIES: dict[int, str] = {
    policy.value: policy.name
    for policy in iter(PipelineFailurePolicy)  # type: ignore[call-overload]
}
_TASK_STATES = {
    "PENDING": JobState.PENDING,
    "RUNNING": JobState.RUNNING,
    "SUCCEEDED": JobState.SUCCEEDED,
    "CANCEL_PENDING": JobState.CANCELLING,
    "CANCELLING": JobState.CANCELLING,
    "CANCELLED": JobState.CANCELLED,
    "FAILED": JobState.FAILED,
    # The result is cached, a condition is false, or the task waited for a failed task.
    "SKIPPED": JobState.SKIPPED,
    "NOT_TRIGGERED": JobState.SKIPPED,
}

_CREATED = frozenset({"CustomJob", "HyperparameterTuningJob"})
"""Types of jobs that Google's components create."""


def job(pb: Any, context: str) -> Job:
    """Convert a PipelineJob message to a domain job."""
    tasks = _tasks(pb)
    return replace(
        job_of(pb, context, KIND, _STATES),
        progress=_progress(tasks),
        tasks=tasks,
        composite=True,
        details=_run(pb),
    )


def _run(pb: Any) -> PipelineRun:
    """Return the inputs of a run. A list's reply contains only some of them."""
    config, spec = pb.runtime_config, pb.pipeline_spec.fields
    values = {name: json_format.MessageToDict(value) for name, value in config.parameter_values.items()}
    info = spec["pipelineInfo"].struct_value.fields if "pipelineInfo" in spec else {}
    return PipelineRun(
        pipeline=info["name"].string_value if "name" in info else "",
        description=info["description"].string_value if "description" in info else "",
        template=pb.template_uri,
        root=config.gcs_output_directory,
        parameters=_whole(values),
        failure_policy=_POLICIES.get(config.failure_policy, ""),
        schedule=pb.schedule_name,
    )


def _progress(tasks: Iterable[Task]) -> Progress:
    """Return the progress as the number of ended tasks. A loop's task count is known once the loop begins."""
    leaves = [task for task in tasks if not task.group]
    ended = sum(task.state.terminal for task in leaves)
    return Progress(step=ended, total_steps=len(leaves)) if ended else Progress()


def _tasks(pb: Any) -> tuple[Task, ...]:
    """Return the tasks, each after its parent, without the pipeline's own task."""
    details = list(pb.job_detail.task_details)
    ids = {detail.task_id for detail in details}
    roots = {detail.task_id for detail in details if detail.parent_task_id not in ids}
    # The pipeline itself is the root task. If it is missing, nothing is left out.
    top = roots if len(roots) == 1 and any(d.parent_task_id in roots for d in details) else set()
    shown = [detail for detail in details if detail.task_id not in top]
    parents = {detail.parent_task_id for detail in shown}
    graph = dependencies(
        {
            str(d.task_id): (d.task_name, "" if d.parent_task_id in top else str(d.parent_task_id))
            for d in shown
        },
        json_format.MessageToDict(pb.pipeline_spec) if shown else {},
    )
    return tuple(
        _task(detail, detail.parent_task_id in top, detail.task_id in parents, graph) for detail in shown
    )


def _task(detail: Any, on_top: bool, is_parent: bool, graph: Mapping[str, tuple[str, ...]]) -> Task:
    native = _TASK_NAMES.get(detail.state) or str(detail.state)
    executor = detail.executor_detail
    own, failed = executor.custom_job_detail.job, executor.custom_job_detail.failed_jobs
    if not own:
        own, failed = executor.container_detail.main_job, executor.container_detail.failed_main_jobs
    metadata = json_format.MessageToDict(detail.execution.metadata) if detail.HasField("execution") else {}
    own = _created(metadata) or own
    inputs, outputs = _artifacts(detail.inputs), _artifacts(detail.outputs)
    error = detail.error.message if detail.HasField("error") else ""
    id = str(detail.task_id)
    return Task(
        id=id,
        state=_TASK_STATES.get(native, JobState.UNKNOWN),
        job=own,
        name=detail.task_name or id,
        parent="" if on_top else str(detail.parent_task_id),
        group=is_parent,
        depends_on=graph.get(id, ()),
        parameters=_parameters(metadata, "input:"),
        outputs={**_parameters(metadata, "output:"), **_uris(outputs)},
        input_artifacts=inputs,
        output_artifacts=outputs,
        failed_jobs=tuple(failed),
        attempts=len(failed) + 1 if own else None,
        native_state=native,
        reason=mask_text(error),
        start_time=moment(detail, "start_time"),
        end_time=moment(detail, "end_time"),
    )


def _created(metadata: Mapping[str, Any]) -> str:
    """Return the job that a Google component created; it is more informative than the launcher's job."""
    try:
        (resource,) = decode_json(str(metadata.get("output:gcp_resources", "")))["resources"]
        kind, uri = resource["resourceType"], str(resource["resourceUri"])
    except (ValueError, KeyError, TypeError):
        return ""
    return uri.partition("/v1/")[2] if kind in _CREATED else ""


def _artifacts(messages: Mapping[str, Any]) -> dict[str, tuple[Artifact, ...]]:
    return {
        name: tuple(
            Artifact(
                message.uri,
                message.schema_title,
                message.display_name,
                _whole(json_format.MessageToDict(message.metadata)),
            )
            for message in values.artifacts
        )
        for name, values in messages.items()
        if values.artifacts
    }


def _uris(artifacts: Mapping[str, tuple[Artifact, ...]]) -> dict[str, Any]:
    """Return the URIs of artifacts by name; a list if a name has several."""
    return {
        name: named[0].uri if len(named) == 1 else [artifact.uri for artifact in named]
        for name, named in artifacts.items()
    }


def _parameters(metadata: Mapping[str, Any], beginning: str) -> dict[str, Any]:
    """Return the parameters of an execution whose names have this prefix."""
    parameters = {
        key.removeprefix(beginning): value for key, value in metadata.items() if key.startswith(beginning)
    }
    return _whole({n: value for n, value in parameters.items() if not n.startswith("pipelinechannel--")})


def _whole(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Convert integral floats to integers, because a Struct has only floats."""
    return {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in numbers.items()
    }


class PipelineJobs(VertexJobs):
    """Pipeline jobs of one context. See PipelineService."""

    resource = Resource(
        noun="pipeline_job",
        types=pipeline_service,
        message=pipeline_job.PipelineJob,
        client=lambda clients, region: clients.pipelines(region),
        active_states=ACTIVE_PIPELINES,
        convert=job,
        body="pipelineJob",
        lists_no_parts=True,
        # The creator of a pipeline job chooses its id.
        id_pattern=re.compile(r"[a-z0-9][a-z0-9-]{0,127}"),
    )
