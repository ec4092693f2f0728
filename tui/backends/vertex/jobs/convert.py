"""Converts plain protobuf of Vertex AI jobs into domain objects, and back for a create request.

The functions read `Type.pb(message)`, which is 8 to 20 times cheaper than the clients' wrappers
(docs/facts/clients.md 'Throughput').
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache
from typing import Any

from google.cloud.aiplatform_v1.types.accelerator_type import AcceleratorType
from google.cloud.aiplatform_v1.types.custom_job import CustomJob, Scheduling
from google.cloud.aiplatform_v1.types.job_state import JobState as NativeState
from google.protobuf import json_format

from tui.backends.vertex.timestamps import moment
from tui.domain.core.job import Job, JobError, infer_replicas, partly_read
from tui.domain.core.replica import ReplicaGroup
from tui.domain.core.states import JobState, from_vertex
from tui.domain.masking import mask_text
from tui.domain.progress.pattern import VARIABLE
from tui.domain.spec.custom_job_spec import whole_numbers
from tui.domain.vertex.catalog import REDUCTION_SERVER
from tui.domain.vertex.worker_pools import worker_pool

KIND = "custom_job"
CustomJobPb = CustomJob.pb()
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
"""Fields of a job in a list. Pools need the complete spec: it is unknown whether the API accepts a nested
path (docs/facts/vertex.md 15.11)."""


def _names(enum: Any) -> dict[int, str]:
    return {member.value: member.name for member in enum}


_STATE_NAMES = _names(NativeState)
_STATES = {number: from_vertex(name) for number, name in _STATE_NAMES.items()}
_ACCELERATORS = {number: name for number, name in _names(AcceleratorType).items() if number}
_STRATEGIES = {**_names(Scheduling.Strategy), 0: "STANDARD"}


def region_of(name: str) -> str:
    """Return the location in a full resource name, or an empty string."""
    parts = name.split("/", 4)
    return parts[3] if len(parts) > 3 and parts[2] == "locations" else ""


@dataclass(slots=True)
class Unread:
    """A CustomJob message of a list. A job's fields are parsed on demand.

    The message is stored serialized, which takes a quarter of the memory.
    """

    serialized: bytes

    def __call__(self, field: str) -> Any:
        """Return the value of that field of `Job`."""
        if field not in _READERS:
            return getattr(_NOT_LISTED, field)
        return _READERS[field](CustomJobPb.FromString(self.serialized))


def job(pb: Any, context: str) -> Job:
    """Convert a CustomJob message to a domain job."""
    listed = listed_job(pb, context)
    replicas = infer_replicas(listed.groups, listed.state, listed.error)
    # Vertex leaves out the scheme (docs/facts/vertex.md 16).
    uris = {key: uri if "://" in uri else f"https://{uri}" for key, uri in pb.web_access_uris.items() if uri}
    return replace(listed, replicas=replicas, web_access_uris=uris, unread=None)


def listed_job(pb: Any, context: str) -> Job:
    """Convert a listed CustomJob message to a domain job without replicas, which `known_replicas` returns.

    Only the fields by which every list is sorted are parsed. Other fields are parsed on use.
    """
    name = pb.name
    return partly_read(
        Unread(pb.SerializeToString()),
        name=name,
        state=_STATES.get(pb.state, JobState.UNKNOWN),
        context=context,
        region=region_of(name),
        kind=KIND,
        create_time=moment(pb, "create_time"),
        tasks=(),
    )


def job_of(pb: Any, context: str, kind: str, states: Mapping[int, str]) -> Job:
    """Convert the fields that pipelines, tuning jobs and training pipelines share to a job.

    `states` maps state numbers to native states.
    """
    native, id = states.get(pb.state) or str(pb.state), pb.name.rpartition("/")[2]
    return Job(
        name=pb.name,
        id=id,
        display_name=pb.display_name or id,
        state=from_vertex(native),
        native_state=native,
        context=context,
        region=region_of(pb.name),
        kind=kind,
        create_time=moment(pb, "create_time"),
        start_time=moment(pb, "start_time"),
        end_time=moment(pb, "end_time"),
        update_time=moment(pb, "update_time"),
        labels=dict(pb.labels),
        error=error_of(pb),
    )


def timeout_of(scheduling: Any) -> timedelta | None:
    """Return the longest run time of the job, or `None` if its Scheduling has no limit."""
    limit = scheduling.timeout
    timeout = timedelta(seconds=limit.seconds, microseconds=limit.nanos // 1000)
    return timeout if scheduling.HasField("timeout") else None


def longest_wait_of(scheduling: Any) -> timedelta | None:
    """Return the longest wait for machines, or `None` if its Scheduling has no limit."""
    limit = scheduling.max_wait_duration
    return timedelta(seconds=limit.seconds) if scheduling.HasField("max_wait_duration") else None


def strategy_of(scheduling: Any) -> str:
    """Return the name of a Scheduling's strategy."""
    return _STRATEGIES.get(scheduling.strategy) or str(scheduling.strategy)


def error_of(pb: Any) -> JobError | None:
    """Return the job's error, or `None` if there is none."""
    if not pb.HasField("error"):
        return None
    error = pb.error
    code, message = error.code, error.message
    return JobError(code, mask_text(message)) if code or message else None


def groups_of(pools: Sequence[Any]) -> tuple[ReplicaGroup, ...]:
    """Convert a job's WorkerPoolSpecs to replica groups."""
    return _groups(tuple(map(_pool_key, pools)))


def pattern_of(pools: Sequence[Any]) -> str:
    """Return the pattern for the job's progress, from the environment of its WorkerPoolSpecs, or "" if there
    is none."""
    for pool in pools:
        for spec in (pool.container_spec, pool.python_package_spec):
            for variable in spec.env:
                if variable.name == VARIABLE:
                    return str(variable.value)
    return ""


_PoolKey = tuple[int, str, int, int, str]
"""Key of a pool: replicas, machine type, accelerator, accelerator count, image."""


def _pool_key(pool: Any) -> _PoolKey:
    machine = pool.machine_spec
    kind, count = machine.accelerator_type, machine.accelerator_count
    image = pool.container_spec.image_uri or pool.python_package_spec.executor_image_uri
    return pool.replica_count, machine.machine_type, kind, count, image


@lru_cache(maxsize=4096)
def _groups(pools: tuple[_PoolKey, ...]) -> tuple[ReplicaGroup, ...]:
    """Return the groups that jobs of one profile share, so that ten thousand jobs need the memory of one."""
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


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "id": lambda pb: pb.name.rpartition("/")[2],
    "display_name": lambda pb: pb.display_name,
    "native_state": lambda pb: _STATE_NAMES.get(pb.state) or str(pb.state),
    "start_time": lambda pb: moment(pb, "start_time"),
    "end_time": lambda pb: moment(pb, "end_time"),
    "update_time": lambda pb: moment(pb, "update_time"),
    "labels": lambda pb: dict(pb.labels),
    "error": error_of,
    "groups": lambda pb: groups_of(pb.job_spec.worker_pool_specs),
    "persistent_resource": lambda pb: pb.job_spec.persistent_resource_id,
    "strategy": lambda pb: strategy_of(pb.job_spec.scheduling),
    "timeout": lambda pb: timeout_of(pb.job_spec.scheduling),
    "longest_wait": lambda pb: longest_wait_of(pb.job_spec.scheduling),
    "progress_pattern": lambda pb: pattern_of(pb.job_spec.worker_pool_specs),
}
_NOT_LISTED = Job("", "", "", JobState.UNKNOWN, "", "", "", KIND)
"""Default values of the fields that a list's reply lacks."""


def job_dict(pb: Any) -> dict[str, Any]:
    """Return the resource in REST format: camelCase, enums by name, int64 as strings (docs/facts/vertex.md
    1.11)."""
    resource: dict[str, Any] = whole_numbers(json_format.MessageToDict(pb, use_integers_for_enums=False))
    return resource
