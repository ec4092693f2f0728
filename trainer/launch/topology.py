"""This process's role and rank in the cluster, from its environment variables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class TopologyError(Exception):
    """The environment variables are inconsistent; the message has the variable and the reason."""


@dataclass(frozen=True, slots=True)
class Topology:
    """This node's rank. `source` names the variables that it is from.

    Node 0 listens at `address`:`port`. `trains` is False for a replica that does not train (a reducer, an
    evaluator). `per_process` means that a launcher has already started one process for each device, so
    RANK and WORLD_SIZE count processes. `job` is the same text on all nodes of a run, and another one in
    other runs as far as the variables tell.
    """

    source: str
    node_rank: int = 0
    nodes: int = 1
    address: str = "127.0.0.1"
    port: int = 29500
    role: str = "node"
    trains: bool = True
    per_process: bool = False
    job: str = ""
    warnings: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    """`host:port` of each node, by rank, where the variables tell; empty if they only tell node 0's."""

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Address and port of each node, node 0's first; the port is 0 where they are not known."""
        others = [_split_port(host) for host in self.hosts[1:]] or [("", 0)] * (self.nodes - 1)
        return [(self.address, self.port), *others]

    @property
    def own_port(self) -> int:
        """Where the others reach this node; 0 if they don't know."""
        return self.addresses[self.node_rank][1]

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Topology:
        """From torchrun's variables, CLUSTER_SPEC, TF_CONFIG or Kubeflow's, in this order; else one node.

        Raises:
            TopologyError: if the variables are inconsistent.
        """
        if "LOCAL_RANK" in env and "RANK" in env:
            return _from_ranks(env, "torchrun", per_process=True)
        if env.get("CLUSTER_SPEC"):
            return _from_cluster_spec(env)
        if env.get("TF_CONFIG"):
            return _from_tf_config(env)
        if env.get("PET_NNODES"):
            return _from_pet(env)
        if "RANK" in env and "WORLD_SIZE" in env:
            return _from_ranks(env, "RANK and WORLD_SIZE", per_process=False)
        return cls("none")


def _job(env: Mapping[str, str], *shared: object) -> str:
    """The job's id: that of Vertex AI or of torch's launcher, with a hash of what all nodes have in common.

    MASTER_ADDR is not part of it: node 0 may have another name for itself.
    """
    given = [env.get(name, "") for name in ("CLOUD_ML_JOB_ID", "CLOUD_ML_TRIAL_ID", "PET_RDZV_ID")]
    digest = hashlib.sha256(json.dumps([given, shared]).encode()).hexdigest()[:12]
    return "-".join([*filter(None, given), digest])


def _json(env: Mapping[str, str], name: str) -> dict[str, Any]:
    try:
        value = json.loads(env[name])
    except json.JSONDecodeError as error:
        raise TopologyError(f"{name} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise TopologyError(f"{name} is not a JSON object")
    return value


def _integer(env: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = env.get(name, "")
    if not text and default is not None:
        return default
    try:
        return int(text)
    except ValueError:
        raise TopologyError(f"{name}={text!r} is not a whole number") from None


def _from_ranks(env: Mapping[str, str], source: str, *, per_process: bool) -> Topology:
    rank, world = _integer(env, "RANK"), _integer(env, "WORLD_SIZE")
    if not 0 <= rank < world:
        raise TopologyError(f"RANK={rank} is not within WORLD_SIZE={world}")
    return Topology(
        source,
        node_rank=rank,
        nodes=world,
        address=env.get("MASTER_ADDR", "127.0.0.1"),
        port=_integer(env, "MASTER_PORT", 29500),
        per_process=per_process,
        job=_job(env, world, env.get("MASTER_PORT", "")),
    )


def _from_pet(env: Mapping[str, str]) -> Topology:
    """A TrainJob sets only PET_*. A PyTorchJob also sets WORLD_SIZE, replicas times processes, so the number
    of nodes is PET_NNODES, `min:max` if elastic (Kubeflow facts)."""
    nodes = _integer({"PET_NNODES": env["PET_NNODES"].rpartition(":")[2]}, "PET_NNODES")
    name = "PET_NODE_RANK" if env.get("PET_NODE_RANK") else "RANK"
    rank = _integer(env, name, 0 if nodes == 1 else None)
    if not 0 <= rank < nodes:
        raise TopologyError(f"{name}={rank} is not within PET_NNODES={env['PET_NNODES']}")
    address = env.get("PET_MASTER_ADDR") or env.get("MASTER_ADDR")
    if nodes > 1 and not address:
        raise TopologyError(
            f"PET_NNODES={env['PET_NNODES']}, but PET_MASTER_ADDR does not say where node 0 is"
        )
    return Topology(
        "PET_NNODES",
        node_rank=rank,
        nodes=nodes,
        address=address or "127.0.0.1",
        port=_integer(env, "PET_MASTER_PORT" if env.get("PET_MASTER_PORT") else "MASTER_PORT", 29500),
        job=_job(env, env["PET_NNODES"], env.get("PET_MASTER_PORT") or env.get("MASTER_PORT", "")),
    )


def _split_port(host: str) -> tuple[str, int]:
    name, _, port = host.rpartition(":")
    return (name, int(port)) if name and port.isdigit() else (host, 29500)


def _from_cluster_spec(env: Mapping[str, str]) -> Topology:
    """Pools 0 and 1 train; node rank is 0 for the primary and i + 1 for worker i (vertex facts 3.1)."""
    spec = _json(env, "CLUSTER_SPEC")
    cluster, task = spec.get("cluster") or {}, spec.get("task") or {}
    kind, index = str(task.get("type", "")), int(task.get("index", 0))
    primary, workers = cluster.get("workerpool0") or [], cluster.get("workerpool1") or []
    if not primary:
        raise TopologyError("CLUSTER_SPEC has no workerpool0, so there is no primary to connect to")
    nodes = len(primary) + len(workers)
    if kind not in {"workerpool0", "workerpool1"}:
        return Topology("CLUSTER_SPEC", nodes=nodes, role=kind or "unknown", trains=False)
    host, port = _split_port(primary[0])
    warnings = []
    if env.get("WORLD_SIZE") and env["WORLD_SIZE"] != str(nodes):
        warnings.append(
            f"WORLD_SIZE={env['WORLD_SIZE']} but CLUSTER_SPEC has {nodes} training nodes; using {nodes}"
        )
    return Topology(
        "CLUSTER_SPEC",
        node_rank=0 if kind == "workerpool0" else len(primary) + index,
        nodes=nodes,
        address=env.get("MASTER_ADDR") or host,
        port=_integer(env, "MASTER_PORT", port),
        role="primary" if kind == "workerpool0" else "worker",
        job=_job(env, primary, workers),
        hosts=(*primary, *workers),
        warnings=tuple(warnings),
    )


def _from_tf_config(env: Mapping[str, str]) -> Topology:
    spec = _json(env, "TF_CONFIG")
    cluster, task = spec.get("cluster") or {}, spec.get("task") or {}
    chief = cluster.get("chief") or cluster.get("master") or []
    workers = cluster.get("worker") or []
    hosts = [*chief, *workers]
    kind, index = str(task.get("type", "")), int(task.get("index", 0))
    if not hosts:
        return Topology("TF_CONFIG")
    if kind not in {"chief", "master", "worker"}:
        return Topology("TF_CONFIG", nodes=len(hosts), role=kind or "unknown", trains=False)
    host, port = _split_port(hosts[0])
    rank = index if kind != "worker" else len(chief) + index
    return Topology(
        "TF_CONFIG",
        node_rank=rank,
        nodes=len(hosts),
        address=env.get("MASTER_ADDR") or host,
        port=_integer(env, "MASTER_PORT", port),
        role="primary" if rank == 0 else "worker",
        job=_job(env, hosts),
        hosts=tuple(hosts),
    )
