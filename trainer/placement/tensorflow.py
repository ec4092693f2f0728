"""Read CLUSTER_SPEC of Vertex AI, and TF_CONFIG, which Vertex AI sets too and TFJobs set alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainer.placement.topology import Topology, TopologyError, split_port
from trainer.placement.variables import job_id, read_integer, read_json


def from_cluster_spec(env: Mapping[str, str]) -> Topology:
    """Read CLUSTER_SPEC: pools 0 and 1 train; rank 0 is the primary, i + 1 is worker i (docs/facts/vertex.md
    3.1)."""
    spec = read_json(env, "CLUSTER_SPEC")
    cluster, task = spec.get("cluster") or {}, spec.get("task") or {}
    kind, index = str(task.get("type", "")), int(task.get("index", 0))
    primary, workers = cluster.get("workerpool0") or [], cluster.get("workerpool1") or []
    if not primary:
        raise TopologyError("CLUSTER_SPEC has no workerpool0, so there is no primary to connect to")
    nodes = len(primary) + len(workers)
    if kind not in {"workerpool0", "workerpool1"}:
        return Topology("CLUSTER_SPEC", nodes=nodes, role=kind or "unknown", trains=False)
    host, port = split_port(primary[0])
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
        port=read_integer(env, "MASTER_PORT", port),
        role="primary" if kind == "workerpool0" else "worker",
        job=job_id(env, primary, workers),
        hosts=(*primary, *workers),
        warnings=tuple(warnings),
    )


def from_tf_config(env: Mapping[str, str]) -> Topology:
    """Read TF_CONFIG: chief (or master), then workers train; parameter servers and evaluators do not
    train."""
    spec = read_json(env, "TF_CONFIG")
    cluster, task = spec.get("cluster") or {}, spec.get("task") or {}
    chief, workers = _hosts(cluster, "chief") or _hosts(cluster, "master"), _hosts(cluster, "worker")
    hosts = [*chief, *workers]
    kind, index = str(task.get("type", "")), int(task.get("index", 0))
    if not hosts:
        return Topology("TF_CONFIG")
    if kind not in {"chief", "master", "worker"}:
        return Topology("TF_CONFIG", nodes=len(hosts), role=kind or "unknown", trains=False)
    rank = index if kind != "worker" else len(chief) + index
    if rank >= len(hosts) or (kind != "worker" and not chief):
        raise TopologyError(
            f"TF_CONFIG: the task is {kind} {index}, which is not in the cluster ({len(chief)} chief, "
            f"{len(workers)} workers). The operator writes both; remove the manifest's own TF_CONFIG"
        )
    host, port = split_port(hosts[0])
    return Topology(
        "TF_CONFIG",
        node_rank=rank,
        nodes=len(hosts),
        address=env.get("MASTER_ADDR") or host,
        port=read_integer(env, "MASTER_PORT", port),
        role="primary" if rank == 0 else "worker",
        job=job_id(env, hosts),
        hosts=tuple(hosts),
    )


def _hosts(cluster: Mapping[str, Any], kind: str) -> list[str]:
    hosts = cluster.get(kind) or []
    if isinstance(hosts, dict):
        # enableDynamicWorker: TF_CONFIG names only this worker.
        raise TopologyError(
            "TF_CONFIG does not name the other workers (enableDynamicWorker): the nodes of a run "
            "must find node 0. Remove enableDynamicWorker from the TFJob"
        )
    return [str(host) for host in hosts]
