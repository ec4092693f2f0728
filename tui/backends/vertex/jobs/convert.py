"""Plain protobuf of Vertex AI jobs into domain objects, and back for a create.

Reads `Type.pb(message)`: 8 to 20 times cheaper than the clients' own wrappers (client facts, 'Throughput').
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cache, lru_cache
from typing import Any

from google.cloud.aiplatform_v1.types.accelerator_type import AcceleratorType
from google.cloud.aiplatform_v1.types.custom_job import CustomJob, Scheduling
from google.cloud.aiplatform_v1.types.job_state import JobState as NativeState
from google.protobuf import json_format

from tui.backends.interface import InvalidRequest
from tui.backends.vertex.timestamps import moment
from tui.domain.job import Job, JobError, infer_replicas
from tui.domain.replica import ReplicaGroup
from tui.domain.states import from_vertex
from tui.domain.vertex.catalog import REDUCTION_SERVER
from tui.domain.vertex.custom_job_spec import whole_numbers
from tui.domain.vertex.worker_pools import worker_pool

CustomJobPb = CustomJob.pb()
_SchedulingPb = Scheduling.pb()
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
    found: dict[str, Any] = whole_numbers(json_format.MessageToDict(pb, use_integers_for_enums=False))
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
