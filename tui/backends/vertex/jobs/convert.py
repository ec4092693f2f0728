"""Plain protobuf of Vertex AI and Logging into domain objects, and back for a create.

Reads `Type.pb(message)`: 8 to 20 times cheaper than the clients' own wrappers (client facts, 'Throughput').
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import Any

from google.cloud.aiplatform_v1.types.accelerator_type import AcceleratorType
from google.cloud.aiplatform_v1.types.custom_job import CustomJob, Scheduling
from google.cloud.aiplatform_v1.types.job_state import JobState as NativeState
from google.cloud.logging_v2.types.log_entry import LogEntry as LogEntryMessage
from google.protobuf import json_format, struct_pb2

from tui.backends.interface import InvalidRequest
from tui.domain.job import Job, JobError, infer_replicas
from tui.domain.log_entry import LogEntry, Severity
from tui.domain.replica import ReplicaGroup
from tui.domain.states import from_vertex
from tui.domain.vertex.catalog import REDUCTION_SERVER
from tui.domain.vertex.worker_pools import worker_pool

CustomJobPb = CustomJob.pb()
_SchedulingPb = Scheduling.pb()
LogEntryPb = LogEntryMessage.pb()
LIST_FIELDS = (
    "name",
    "display_name",
    "state",
    "create_time",
    "start_time",
    "end_time",
    "update_time",
    "labels",
    "error",
    "job_spec",
)
"""What a list has to say of a job. Pools need the whole spec: whether a nested path would be accepted is
not known (vertex facts 15.11)."""


def _names(enum: Any) -> dict[int, str]:
    return {member.value: member.name for member in enum}


_STATES = _names(NativeState)
_ACCELERATORS = {number: name for number, name in _names(AcceleratorType).items() if number}
_STRATEGIES = {**_names(Scheduling.Strategy), 0: "STANDARD"}
_SEVERITIES = {severity.value: severity for severity in Severity}
_EXACT = 2**53
_EPOCH = datetime.fromtimestamp(0, UTC)


def moment(message: Any, field: str) -> datetime | None:
    """A Timestamp field as an aware datetime; `None` where it is not set or out of range."""
    value = getattr(message, field)
    seconds, nanos = value.seconds, value.nanos
    # A listing of jobs asks 40,000 times: only the epoch itself looks like a field that is not set.
    return time_of(seconds, nanos) if seconds or nanos or message.HasField(field) else None


def time_of(seconds: int, nanos: int) -> datetime | None:
    """The time so long after the epoch; `None` where it is out of range."""
    try:
        # The service gives most times in whole seconds; an addition takes half as long again.
        if nanos:
            return _EPOCH + timedelta(0, seconds, nanos // 1000)
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def region_of(name: str) -> str:
    """The location in a full resource name, or an empty text."""
    parts = name.split("/", 4)
    return parts[3] if len(parts) > 3 and parts[2] == "locations" else ""


def job(pb: Any, context: str) -> Job:
    """A CustomJob message as a domain job."""
    found = listed_job(pb, context)
    replicas = infer_replicas(found.groups, found.state, found.error)
    return replace(found, replicas=replicas, web_access_uris=dict(pb.web_access_uris))


def listed_job(pb: Any, context: str) -> Job:
    """A CustomJob message of a list as a domain job, without its replicas: `known_replicas` says them.

    This runs for every job of a listing, so that it is written for speed: each access to a message costs a
    call, and an access to a message inside it an object.
    """
    native = _STATES.get(pb.state) or str(pb.state)
    name = pb.name
    spec = pb.job_spec
    strategy, timeout = _scheduling(spec.scheduling.SerializeToString())
    labels = pb.labels
    return Job(
        name=name,
        id=name.rpartition("/")[2],
        display_name=pb.display_name,
        state=_state(native),
        native_state=native,
        context=context,
        region=region_of(name),
        create_time=moment(pb, "create_time"),
        start_time=moment(pb, "start_time"),
        end_time=moment(pb, "end_time"),
        update_time=moment(pb, "update_time"),
        labels={key: labels[key] for key in labels},
        error=error_of(pb),
        groups=groups_of(spec.worker_pool_specs),
        strategy=strategy,
        timeout=timeout,
    )


@lru_cache(maxsize=1024)
def _scheduling(serialized: bytes) -> tuple[str, timedelta | None]:
    """The strategy and the timeout of a serialized Scheduling, which thousands of jobs share."""
    scheduling = _SchedulingPb.FromString(serialized)
    limit = scheduling.timeout
    timeout = timedelta(seconds=limit.seconds, microseconds=limit.nanos // 1000)
    return strategy_of(scheduling), timeout if scheduling.HasField("timeout") else None


def strategy_of(scheduling: Any) -> str:
    """The name of a Scheduling's strategy."""
    return _STRATEGIES.get(scheduling.strategy) or str(scheduling.strategy)


def error_of(pb: Any) -> JobError | None:
    """How it failed; `None` where it has not."""
    if not pb.HasField("error"):
        return None
    error = pb.error
    code, message = error.code, error.message
    return JobError(code, message) if code or message else None


_state = cache(from_vertex)


def groups_of(pools: Sequence[Any]) -> tuple[ReplicaGroup, ...]:
    """A job's WorkerPoolSpecs as replica groups."""
    # A slice is cheaper than the messages' own iterator, which ends with an exception inside.
    return _groups(tuple([_said(pool) for pool in pools[:]]))


_Said = tuple[int, str, int, int, str]
"""Of a pool: replicas, machine type, accelerator, its count, image."""


def _said(pool: Any) -> _Said:
    machine = pool.machine_spec
    kind, count = machine.accelerator_type, machine.accelerator_count
    image = pool.container_spec.image_uri or pool.python_package_spec.executor_image_uri
    return pool.replica_count, machine.machine_type, kind, count, image


@lru_cache(maxsize=4096)
def _groups(pools: tuple[_Said, ...]) -> tuple[ReplicaGroup, ...]:
    """Jobs of one profile share their groups: ten thousand of them take no more memory than one."""
    return tuple(
        worker_pool(
            position,
            max(0, replicas),
            machine_type,
            _ACCELERATORS.get(accelerator, str(accelerator) if accelerator else ""),
            count,
            image=image,
            reduction_server=REDUCTION_SERVER in image,
        )
        for position, (replicas, machine_type, accelerator, count, image) in enumerate(pools)
    )


def job_dict(pb: Any) -> dict[str, Any]:
    """The resource in REST form: camelCase, enums by name, int64 as strings (vertex facts 1.11)."""
    found: dict[str, Any] = json_format.MessageToDict(pb, use_integers_for_enums=False)
    return found


def job_message(resource: Mapping[str, Any]) -> Any:
    """A CustomJob message from its REST form.

    Raises:
        InvalidRequest: naming the field that does not fit.
    """
    message = CustomJobPb()
    try:
        json_format.ParseDict(dict(resource), message)
    except json_format.ParseError as error:
        raise InvalidRequest(
            f"The job does not have the form of a Vertex AI custom job: {error}",
            fix="Correct the profile's jobSpec; `gcloud ai custom-jobs create --config` takes the same form.",
        ) from error
    return message


def entry(pb: Any) -> LogEntry:
    """A LogEntry message as a domain entry.

    `message` is the text payload, the `message` of a structured one, or that one whole as JSON. This runs
    for every line of a log, so that it is written for speed: each access to a message costs a call.
    """
    stamp = pb.timestamp
    seconds, nanos = stamp.seconds, stamp.nanos
    try:
        at = _second(seconds) + timedelta(0, 0, nanos // 1000) if seconds else _unusual_time(pb)
    except (ValueError, OverflowError, OSError):
        at = _unusual_time(pb)
    payload: dict[str, Any] | None = None
    text = pb.text_payload
    if not text:
        kind = pb.WhichOneof("payload")
        if kind == "json_payload":
            payload = plain_struct(pb.json_payload)
            said = payload.get("message")
            text = said if isinstance(said, str) else json.dumps(payload, ensure_ascii=False)
        elif kind == "proto_payload":
            text = f"({pb.proto_payload.type_url.rsplit('/', 1)[-1]})"
    labels = pb.resource.labels
    replica, number = labels.get("task_name", ""), labels.get("job_id", "")
    severity = _SEVERITIES.get(pb.severity, Severity.DEFAULT)
    return LogEntry(at, pb.insert_id, replica, severity, text, payload, number, nanos % 1000)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a message's entries say of their receipt by the service."""

    newest: datetime | None = None
    """`None` where the service does not say it."""
    whole_until: datetime | None = None
    """A stream that sorts has nothing left to say of what was received before, whatever waits in it."""
    late: int = 0
    """Whole seconds between an entry's own time and its receipt, the most."""


def receipt(pbs: Iterable[Any]) -> Receipt:
    """See `Receipt`."""
    newest, newest_own, late = (0, 0), (0, 0), 0
    for pb in pbs:
        at, own = pb.receive_timestamp, pb.timestamp
        seconds, own_seconds = at.seconds, own.seconds
        newest = max(newest, (seconds, at.nanos))
        newest_own = max(newest_own, (own_seconds, own.nanos))
        late = max(late, seconds - own_seconds)
    if newest == (0, 0):
        return Receipt()
    # Late entries come first where many wait, for they are older: their receipt says nothing of the rest.
    return Receipt(_moment(newest), _moment(min(newest, newest_own)), late)


def _moment(at: tuple[int, int]) -> datetime | None:
    return time_of(*at)


def _unusual_time(pb: Any) -> datetime:
    return moment(pb, "timestamp") or moment(pb, "receive_timestamp") or _EPOCH


@lru_cache(maxsize=64)
def _second(seconds: int) -> datetime:
    # Lines come by the thousand a second: most share theirs with the line before.
    return datetime.fromtimestamp(seconds, UTC)


def plain_struct(struct: struct_pb2.Struct) -> dict[str, Any]:
    """A Struct as Python values. Whole numbers become `int` again: on the wire all are doubles."""
    return {name: _plain_value(value) for name, value in struct.fields.items()}


def _plain_value(value: struct_pb2.Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "number_value":
        number = value.number_value
        whole = math.isfinite(number) and number.is_integer() and abs(number) < _EXACT
        return int(number) if whole else number
    if kind == "struct_value":
        return plain_struct(value.struct_value)
    if kind == "list_value":
        return [_plain_value(item) for item in value.list_value.values]
    if kind in {None, "null_value"}:
        return None
    return getattr(value, kind)
