"""Task details of a pipeline job: one per node of its plan, and one for the pipeline itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.cloud.aiplatform_v1.types import pipeline_job
from google.rpc import code_pb2, status_pb2

from tui.emulator.messages import Pb, timestamp
from tui.emulator.pipelines.google_components import is_custom_job, is_googles
from tui.emulator.pipelines.planner import PipelinePlan, PlanNode, TaskRecord, Values

TaskDetailPb = pipeline_job.PipelineTaskDetail.pb()
_States = pipeline_job.PipelineTaskDetail.State
ROOT = ""
"""Path of the pipeline itself."""


def root_detail(pb: Pb, name: str, plan: PipelinePlan, number: int, end: Any = None) -> Pb:
    """Return the detail of the pipeline itself; `name` is the name of the pipeline, and `end` is its end
    time."""
    root = TaskDetailPb(task_id=number, task_name=name, state=getattr(_States, plan.status.value))
    root.create_time.CopyFrom(pb.create_time)
    if pb.HasField("start_time"):
        root.start_time.CopyFrom(pb.start_time)
    if end is not None:
        root.end_time.CopyFrom(end)
    return root


def task_detail(node: PlanNode, record: TaskRecord | None, ids: Mapping[str, int], pipeline: str) -> Pb:
    """Return the detail of a node; `ids` numbers the nodes, `pipeline` is the name of the pipeline job."""
    detail = TaskDetailPb()
    detail.task_id, detail.parent_task_id = ids[node.path], ids[node.parent]
    detail.task_name = node.name if node.iteration is None else f"{node.name}-{node.iteration}"
    detail.task_unique_name = node.path
    detail.state = getattr(_States, node.status.value)
    if node.start is not None:
        detail.create_time.CopyFrom(timestamp(node.start))
        detail.start_time.CopyFrom(timestamp(node.start))
    if node.end is not None:
        detail.end_time.CopyFrom(timestamp(node.end))
    if node.error:
        detail.error.CopyFrom(status_pb2.Status(code=code_pb2.FAILED_PRECONDITION, message=node.error))
    for target, values in ((detail.inputs, node.inputs), (detail.outputs, node.outputs)):
        _write_artifacts(target, values)
    execution = detail.execution
    execution.name = (
        f"{pipeline.rpartition('/pipelineJobs/')[0]}/metadataStores/default/executions/{ids[node.path]}"
    )
    execution.display_name = node.title
    # The loop itself shows its list: with a copy in each iteration, the details would grow as its square.
    inputs = node.inputs.parameters.items()
    metadata = {f"input:{key}": value for key, value in inputs if key != node.items}
    metadata |= {f"output:{key}": value for key, value in node.outputs.parameters.items()}
    execution.metadata.update(metadata)
    if record is not None and record.jobs and node.leaf is not None:
        if is_custom_job(node.leaf):
            detail.executor_detail.custom_job_detail.job = record.jobs[-1]
            detail.executor_detail.custom_job_detail.failed_jobs.extend(record.jobs[:-1])
        elif not is_googles(node.leaf):
            detail.executor_detail.container_detail.main_job = record.jobs[-1]
            detail.executor_detail.container_detail.failed_main_jobs.extend(record.jobs[:-1])
    return detail


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
