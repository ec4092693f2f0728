"""What each replica is told about the others: CLUSTER_SPEC, TF_CONFIG, PyTorch's (vertex facts 3)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format

from tui.domain.vertex import catalog
from tui.emulator.interfaces import CustomJobPb, JobRecord

_TF_ROLES = ("chief", "worker", "ps", "evaluator")
_LONGEST = 100_000
"""Bytes of one variable; the kernel refuses a program that is given one of 128 KiB."""


@dataclass(frozen=True, slots=True)
class Place:
    """One replica's position and its address."""

    pool: int
    index: int
    host: str

    @property
    def id(self) -> str:
        return f"workerpool{self.pool}-{self.index}"


def places_of(job: CustomJobPb, ports: Sequence[int]) -> list[Place]:
    """Every replica in the order of the pools, each with a port of its own; a skipped pool has none."""
    found: list[Place] = []
    for position, pool in enumerate(job.job_spec.worker_pool_specs):
        for index in range(int(pool.replica_count)):
            found.append(Place(position, index, f"127.0.0.1:{ports[len(found)]}"))
    return found


def cluster_variables(
    job: CustomJobPb, record: JobRecord, places: Sequence[Place], me: Place, master_port: int
) -> dict[str, str]:
    """The variables of the replica at `me`. CLUSTER_SPEC is always there, the others with company only."""
    spec = json_format.MessageToDict(job.job_spec)
    env = {"CLUSTER_SPEC": _bounded(_cluster_spec(places, me), spec)}
    if len(places) > 1:
        env |= _tf_config(job, record, places, me, spec)
        env |= _pytorch(places, me, master_port)
    return env


def _cluster_spec(places: Sequence[Place], me: Place) -> dict[str, Any]:
    hosts: dict[str, list[str]] = {}
    for place in places:
        hosts.setdefault(f"workerpool{place.pool}", []).append(place.host)
    return {
        "cluster": hosts,
        "environment": "cloud",
        "task": {"type": f"workerpool{me.pool}", "index": me.index},
    }


def _tf_config(
    job: CustomJobPb, record: JobRecord, places: Sequence[Place], me: Place, spec: dict[str, Any]
) -> dict[str, str]:
    """TF_CONFIG for all but reducers.

    Whether reducers appear as `ps` is unknown (vertex facts 3.2). Google's own Reduction Server example
    uses MultiWorkerMirroredStrategy, which does not work beside a `ps`, so here they do not.
    """
    if _reduces(job, me):
        return {}
    cluster: dict[str, list[str]] = {}
    for place in places:
        role = _TF_ROLES[place.pool]
        if role != "evaluator" and not _reduces(job, place):
            cluster.setdefault(role, []).append(place.host)
    task = {"type": _TF_ROLES[me.pool], "index": me.index, "cloud": record.id}
    config = {"cluster": cluster, "task": task, "environment": "cloud"}
    return {"TF_CONFIG": _bounded(config, spec)}


def _pytorch(places: Sequence[Place], me: Place, port: int) -> dict[str, str]:
    """Per node, and only for the pools that train; LOCAL_RANK is the launcher's (vertex facts 3.3)."""
    training = [place for place in places if place.pool in {0, 1}]
    if me not in training:
        return {}
    return {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "RANK": str(training.index(me)),
        "WORLD_SIZE": str(len(training)),
    }


def _bounded(config: dict[str, Any], spec: dict[str, Any]) -> str:
    """`config` with the job's spec under `job`, a JSON string as in real dumps (vertex facts 3.1).

    A job with very long arguments gets an empty one, as its programs could not be started otherwise.
    """
    text = json.dumps({**config, "job": json.dumps(spec)})
    return text if len(text) <= _LONGEST else json.dumps({**config, "job": "{}"})


def _reduces(job: CustomJobPb, place: Place) -> bool:
    return catalog.REDUCTION_SERVER in job.job_spec.worker_pool_specs[place.pool].container_spec.image_uri
