"""Variables that describe the cluster: CLUSTER_SPEC, TF_CONFIG and PyTorch's (docs/facts/vertex.md 3)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format

from tui.domain.vertex import catalog
from tui.emulator.interfaces import CustomJobPb, JobRecord

_TF_ROLES = ("chief", "worker", "ps", "evaluator")
TRIAL_VARIABLE = "CLOUD_ML_TRIAL_ID"
"""Variable in the env of every pool of a tuning trial's custom job."""
_OPEN_PORTS = [3333]
"""The ports that recorded variables name (docs/facts/vertex.md 16). No process listens at these ports."""
_LONGEST = 100_000
"""Maximum size of one variable in bytes; the kernel refuses variables of 128 KiB."""


@dataclass(frozen=True, slots=True)
class ReplicaAddress:
    """One replica: its pool, its index in the pool, and its host and port."""

    pool: int
    index: int
    host: str

    @property
    def id(self) -> str:
        return f"workerpool{self.pool}-{self.index}"


def replica_addresses(job: CustomJobPb, ports: Sequence[int]) -> list[ReplicaAddress]:
    """Return the addresses of all replicas in pool order, each with a separate port."""
    addresses: list[ReplicaAddress] = []
    for position, pool in enumerate(job.job_spec.worker_pool_specs):
        for index in range(int(pool.replica_count)):
            addresses.append(ReplicaAddress(position, index, f"127.0.0.1:{ports[len(addresses)]}"))
    return addresses


def cluster_variables(
    job: CustomJobPb,
    record: JobRecord,
    addresses: Sequence[ReplicaAddress],
    me: ReplicaAddress,
    master_port: int,
) -> dict[str, str]:
    """Return the variables of the replica `me`. Jobs of one replica have only CLUSTER_SPEC."""
    spec = json_format.MessageToDict(job.job_spec)
    package = job.job_spec.worker_pool_specs[me.pool].python_package_spec
    old_form = {
        "python_module": package.python_module,
        "package_uris": list(package.package_uris),
        "job_args": list(package.args),
    }
    env = {"CLUSTER_SPEC": _bounded(_cluster_spec(job, addresses, me), old_form)}
    if len(addresses) > 1:
        env |= _tf_config(job, record, addresses, me, spec)
        env |= _pytorch(addresses, me, master_port)
    return env


def _cluster_spec(
    job: CustomJobPb, addresses: Sequence[ReplicaAddress], me: ReplicaAddress
) -> dict[str, Any]:
    hosts: dict[str, list[str]] = {}
    for address in addresses:
        hosts.setdefault(f"workerpool{address.pool}", []).append(address.host)
    task: dict[str, Any] = {"type": f"workerpool{me.pool}", "index": me.index}
    pool = job.job_spec.worker_pool_specs[me.pool]
    container = pool.container_spec if pool.HasField("container_spec") else pool.python_package_spec
    trial = next((variable.value for variable in container.env if variable.name == TRIAL_VARIABLE), "")
    if trial:
        task["trial"] = trial
    return {"cluster": hosts, "environment": "cloud", "task": task, "open_ports": _OPEN_PORTS}


def _tf_config(
    job: CustomJobPb,
    record: JobRecord,
    addresses: Sequence[ReplicaAddress],
    me: ReplicaAddress,
    spec: dict[str, Any],
) -> dict[str, str]:
    """Return TF_CONFIG for all replicas except reducers.

    Whether reducers appear as `ps` is unknown (docs/facts/vertex.md 3.2). Google's Reduction Server example
    uses MultiWorkerMirroredStrategy, which does not work with a `ps`, so reducers are left out here.
    """
    if _reduces(job, me):
        return {}
    cluster: dict[str, list[str]] = {}
    for address in addresses:
        role = _TF_ROLES[address.pool]
        if role != "evaluator" and not _reduces(job, address):
            cluster.setdefault(role, []).append(address.host)
    task = {"type": _TF_ROLES[me.pool], "index": me.index, "cloud": record.id}
    config = {"cluster": cluster, "task": task, "environment": "cloud"}
    return {"TF_CONFIG": _bounded(config, spec)}


def _pytorch(addresses: Sequence[ReplicaAddress], me: ReplicaAddress, port: int) -> dict[str, str]:
    """Return the variables per node, for the training pools only; the launcher sets LOCAL_RANK
    (docs/facts/vertex.md 3.3)."""
    training = [address for address in addresses if address.pool in {0, 1}]
    if me not in training:
        return {}
    return {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "RANK": str(training.index(me)),
        "WORLD_SIZE": str(len(training)),
    }


def _bounded(config: dict[str, Any], spec: dict[str, Any]) -> str:
    """Return `config` with `spec` under `job`, as a JSON string like in real dumps (docs/facts/vertex.md
    3.1).

    `job` is `{}` for very long arguments: the programs could not start otherwise.
    """
    text = json.dumps({**config, "job": json.dumps(spec)})
    return text if len(text) <= _LONGEST else json.dumps({**config, "job": "{}"})


def _reduces(job: CustomJobPb, address: ReplicaAddress) -> bool:
    return catalog.REDUCTION_SERVER in job.job_spec.worker_pool_specs[address.pool].container_spec.image_uri
