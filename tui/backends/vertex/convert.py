"""Plain protobuf of the services to domain objects."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from google.cloud.aiplatform_v1.types import accelerator_type, job_state
from google.cloud.aiplatform_v1.types.custom_job import Scheduling
from google.protobuf import json_format

from tui.domain import catalog
from tui.domain.entry import LogEntry, Severity
from tui.domain.job import Job, JobError, WorkerPool, infer_replicas
from tui.domain.states import from_vertex


def moment(stamp: Any) -> datetime:
    """A Timestamp in UTC, to the microsecond."""
    return datetime.fromtimestamp(stamp.seconds, UTC) + timedelta(microseconds=stamp.nanos // 1000)


def _when(pb: Any, field: str) -> datetime | None:
    return moment(getattr(pb, field)) if pb.HasField(field) else None


def pool(position: int, pb: Any) -> WorkerPool:
    """One worker pool; an empty message is a skipped position."""
    machine = pb.machine_spec
    container = pb.HasField("container_spec")
    image = pb.container_spec.image_uri if container else pb.python_package_spec.executor_image_uri
    kind = machine.accelerator_type
    return WorkerPool(
        position,
        int(pb.replica_count),
        machine.machine_type,
        accelerator_type.AcceleratorType(kind).name if kind else "",
        machine.accelerator_count,
        image,
        catalog.REDUCTION_SERVER in image,
    )


def job(pb: Any, context: str) -> Job:
    """A CustomJob; the region is the one in its name."""
    native = _enum(job_state.JobState, pb.state)
    state = from_vertex(native)
    error = JobError(pb.error.code, pb.error.message) if pb.HasField("error") else None
    pools = tuple(pool(i, p) for i, p in enumerate(pb.job_spec.worker_pool_specs))
    scheduling = pb.job_spec.scheduling
    strategy = _enum(Scheduling.Strategy, scheduling.strategy)
    parts = pb.name.split("/")
    return Job(
        name=pb.name,
        id=parts[-1],
        display_name=pb.display_name,
        state=state,
        native_state=native,
        context=context,
        region=parts[3] if len(parts) > 3 else "",
        create_time=_when(pb, "create_time"),
        start_time=_when(pb, "start_time"),
        end_time=_when(pb, "end_time"),
        update_time=_when(pb, "update_time"),
        labels=dict(pb.labels),
        error=error,
        pools=pools,
        strategy="STANDARD" if strategy == "STRATEGY_UNSPECIFIED" else strategy,
        timeout=timedelta(seconds=scheduling.timeout.seconds) if scheduling.HasField("timeout") else None,
        replicas=infer_replicas(pools, state, error),
        web_access_uris=dict(pb.web_access_uris),
    )


def _enum(kind: Any, value: int) -> str:
    """The name of an enum value; a number from the future stays a number."""
    try:
        return str(kind(value).name)
    except ValueError:
        return str(value)


def entry(pb: Any) -> LogEntry:
    """A LogEntry of an ml_job. The message of a JSON line is its `message`, else the line itself."""
    labels = pb.resource.labels
    payload = None
    if pb.HasField("json_payload"):
        payload = json_format.MessageToDict(pb.json_payload)
        message = str(payload.get("message", "")) or json_format.MessageToJson(pb.json_payload, indent=None)
    else:
        message = pb.text_payload
    try:
        severity = Severity(pb.severity)
    except ValueError:
        severity = Severity.DEFAULT
    return LogEntry(
        moment(pb.timestamp),
        pb.insert_id,
        labels.get("task_name", "") or "unknown",
        severity,
        message,
        payload,
        labels.get("job_id", ""),
    )
