"""Environment that the operator injects so that the pods of a PyTorchJob or TFJob find each other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tui.emulator.kubernetes.operators.metadata import name_of, namespace_of
from tui.emulator.kubernetes.operators.training.kinds import PYTORCH, TENSORFLOW, port_of
from tui.emulator.kubernetes.resources import Obj


def replica_name(job_name: str, replica_type: str, index: int) -> str:
    """Return the name of a replica's pod and service."""
    return f"{job_name}-{replica_type.lower()}-{index}"


def pytorch_environment(job: Obj, replica_type: str, index: int) -> list[Obj]:
    """Return the variables that the operator adds to each container of a PyTorchJob's pod, in order.

    The job has its defaults. WORLD_SIZE counts one process per node unless nprocPerNode is a number, as in
    the operator.
    """
    replicas = PYTORCH.specs(job)
    nodes = sum(int(replica["replicas"]) for replica in replicas.values())
    per_node = job["spec"].get("nprocPerNode")
    variables = [("PYTHONUNBUFFERED", "1")]
    if "Master" in replicas:
        port = str(port_of(PYTORCH, replicas["Master"]))
        address = replica_name(name_of(job), "Master", 0)
        rank = str(index + (replica_type == "Worker"))
        variables += [
            ("MASTER_PORT", port),
            ("PET_MASTER_PORT", port),
            ("MASTER_ADDR", address),
            ("PET_MASTER_ADDR", address),
            ("WORLD_SIZE", str(nodes * _whole(per_node))),
            ("RANK", rank),
            ("PET_NODE_RANK", rank),
        ]
    if per_node is not None:
        variables.append(("PET_NPROC_PER_NODE", str(per_node)))
    if job["spec"].get("elasticPolicy") is not None:
        variables += _elastic_variables(job)
    else:
        variables.append(("PET_NNODES", str(nodes)))
    return [{"name": name, "value": value} for name, value in variables]


def _whole(per_node: str | None) -> int:
    try:
        return int(per_node or "")
    except ValueError:
        return 1


def _elastic_variables(job: Obj) -> list[tuple[str, str]]:
    elastic = job["spec"]["elasticPolicy"]
    worker = PYTORCH.specs(job)["Worker"]
    host = elastic.get("rdzvHost") or replica_name(name_of(job), "Worker", 0)
    port = elastic.get("rdzvPort") or port_of(PYTORCH, worker)
    variables = [
        ("PET_RDZV_ENDPOINT", f"{host}:{port}"),
        ("PET_RDZV_BACKEND", elastic.get("rdzvBackend") or "c10d"),
        ("PET_NNODES", f"{elastic['minReplicas']}:{elastic['maxReplicas']}"),
    ]
    for field, name in (
        ("maxRestarts", "PET_MAX_RESTARTS"),
        ("nProcPerNode", "PET_NPROC_PER_NODE"),
        ("rdzvId", "PET_RDZV_ID"),
    ):
        if elastic.get(field) is not None:
            variables.append((name, str(elastic[field])))
    if elastic.get("rdzvConf"):
        pairs = ",".join(f"{pair['key']}={pair['value']}" for pair in elastic["rdzvConf"])
        variables.append(("PET_RDZV_CONF", pairs))
    if elastic.get("standalone"):
        variables.append(("PET_STANDALONE", ""))
    return variables


def tf_config(job: Obj, replica_type: str, index: int) -> str:
    """Return TF_CONFIG of one replica, or "" if the job has only one.

    The job has its defaults.
    """
    replicas = TENSORFLOW.specs(job)
    if sum(int(replica["replicas"]) for replica in replicas.values()) == 1:
        return ""
    task = {"type": replica_type.lower(), "index": index}
    addresses = {
        kind.lower(): [_address(job, kind, replica, i) for i in range(int(replica["replicas"]))]
        for kind, replica in sorted(replicas.items(), key=lambda item: item[0].lower())
    }
    if job["spec"].get("enableDynamicWorker"):
        return _compact({"cluster": _sparse(addresses, task["type"], index), "task": task})
    return _compact({"cluster": addresses, "task": task, "environment": "cloud"})


def _compact(value: Obj) -> str:
    return json.dumps(value, separators=(",", ":"))


def _address(job: Obj, replica_type: str, replica: Obj, index: int) -> str:
    host = replica_name(name_of(job), replica_type, index)
    return f"{host}.{namespace_of(job)}.svc:{port_of(TENSORFLOW, replica)}"


def _sparse(addresses: Mapping[str, list[str]], task_type: Any, index: int) -> Obj:
    """Return a task's cluster in dynamic mode, which has the servers and the task."""
    sparse: Obj = {"worker": {}, "ps": []}
    if task_type == "ps":
        sparse["ps"].append(addresses["ps"][index])
    elif task_type == "worker":
        sparse["ps"] = list(addresses.get("ps", ()))
        sparse["worker"] = {str(index): addresses["worker"][index]}
    return sparse
