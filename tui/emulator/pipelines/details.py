"""Task details of a pipeline job: one for each node of its plan, and one for the pipeline itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from google.cloud.aiplatform_v1.types import pipeline_job
from google.rpc import code_pb2, status_pb2

from tui.emulator.messages import Pb, timestamp
from tui.emulator.pipelines.google_components import is_custom_job, is_googles
from tui.emulator.pipelines.planner import PipelinePlan, PlanNode, TaskRecord, Values

_States = pipeline_job.PipelineTaskDetail.State
ROOT = ""
"""Path of the pipeline itself."""


def number_tasks(plan: PipelinePlan, ids: dict[str, int], first: int) -> None:
    """Number the nodes that have no number yet, from `first` on; a task keeps its number."""
    for path in (ROOT, *(node.path for node in plan.nodes)):
        if path not in ids:
            ids[path] = first + len(ids)


def write_details(
    pb: Pb, name: str, plan: PipelinePlan, records: Mapping[str, TaskRecord], ids: Mapping[str, int]
) -> None:
    """Write the details of a plan into a PipelineJob; `name` is the pipeline's."""
    del pb.job_detail.task_details[:]
    root = pb.job_detail.task_details.add(
        task_id=ids[ROOT], task_name=name, state=getattr(_States, plan.status.value)
    )
    root.create_time.CopyFrom(pb.create_time)
    if pb.HasField("start_time"):
        root.start_time.CopyFrom(pb.start_time)
    spans = _spans(plan, records)
    for node in plan.nodes:
        _write(pb.job_detail.task_details.add(), node, records.get(node.path), spans, ids, pb.name)


def _write(  # noqa: PLR0917
    detail: Pb,
    node: PlanNode,
    record: TaskRecord | None,
    spans: Mapping[str, tuple[float, float | None]],
    ids: Mapping[str, int],
    pipeline: str,
) -> None:
    detail.task_id, detail.parent_task_id = ids[node.path], ids[node.parent]
    detail.task_name = node.name if node.iteration is None else f"{node.name}-{node.iteration}"
    detail.task_unique_name = node.path
    detail.state = getattr(_States, node.status.value)
    if node.path in spans:
        start, end = spans[node.path]
        detail.create_time.CopyFrom(timestamp(start))
        detail.start_time.CopyFrom(timestamp(start))
        if end is not None and node.status.final:
            detail.end_time.CopyFrom(timestamp(end))
    if node.error:
        detail.error.CopyFrom(status_pb2.Status(code=code_pb2.FAILED_PRECONDITION, message=node.error))
    for target, values in ((detail.inputs, node.inputs), (detail.outputs, node.outputs)):
        _write_artifacts(target, values)
    execution = detail.execution
    execution.name = (
        f"{pipeline.rpartition('/pipelineJobs/')[0]}/metadataStores/default/executions/{ids[node.path]}"
    )
    execution.display_name = node.title
    metadata = {f"input:{key}": value for key, value in node.inputs.parameters.items()}
    metadata |= {f"output:{key}": value for key, value in node.outputs.parameters.items()}
    execution.metadata.update(metadata)
    if record is not None and record.jobs and node.leaf is not None:
        if is_custom_job(node.leaf):
            detail.executor_detail.custom_job_detail.job = record.jobs[-1]
            detail.executor_detail.custom_job_detail.failed_jobs.extend(record.jobs[:-1])
        elif not is_googles(node.leaf):
            detail.executor_detail.container_detail.main_job = record.jobs[-1]
            detail.executor_detail.container_detail.failed_main_jobs.extend(record.jobs[:-1])


def _write_artifacts(target: Any, values: Values) -> None:
    for name, artifacts in values.artifacts.items():
        for artifact in artifacts:
            detail = target[name].artifacts.add(
                display_name=str(artifact.get("name", "")), uri=str(artifact.get("uri", ""))
            )
            kind = artifact.get("type") or {}
            detail.schema_title = str(kind.get("schemaTitle", ""))
            detail.schema_version = str(kind.get("schemaVersion", ""))
            detail.metadata.update(artifact.get("metadata") or {})


def _spans(plan: PipelinePlan, records: Mapping[str, TaskRecord]) -> dict[str, tuple[float, float | None]]:
    """Return start and end of each node; a node with children spans from its first start to its last end."""
    spans: dict[str, tuple[float, float | None]] = {}
    for path, record in records.items():
        if record.start is None:
            continue
        for node_path in (path, *_above(path)):
            start, end = spans.get(node_path, (record.start, record.end))
            ends = None if end is None or record.end is None else max(end, record.end)
            spans[node_path] = min(start, record.start), ends
    return spans


def _above(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
