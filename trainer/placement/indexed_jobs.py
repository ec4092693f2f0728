"""A JobSet, and an indexed Job of Kubernetes without an operator.

Kubernetes itself sets only JOB_COMPLETION_INDEX, and JobSet sets no variables. Therefore, the manifest must
set the others, through the downward API or literally: NNODES, and MASTER_ADDR or the values that determine
it.
"""

from __future__ import annotations

from collections.abc import Mapping

from trainer.placement.topology import Topology, TopologyError
from trainer.placement.variables import check_rank, job_id, read_first, read_integer

_COUNTS = ("NNODES", "JOB_COMPLETIONS")
_JOB_INDEX = ("JOB_INDEX", "JOBSET_JOB_INDEX")
_REPLICAS = ("JOBSET_REPLICAS", "REPLICATED_JOB_REPLICAS")


def from_job_set(env: Mapping[str, str]) -> Topology:
    """Read a JobSet: JOBSET_NAME, REPLICATED_JOB_NAME, JOB_INDEX are labels by the downward API.

    The labels are `jobset.sigs.k8s.io/…`. A pod's host is JOBSET-REPLICATEDJOB-JOBINDEX-PODINDEX, in the
    domain JOBSET.
    """
    name, group = env["JOBSET_NAME"], env.get("REPLICATED_JOB_NAME", "")
    index, nodes = _index(env), _count(env, "JobSet")
    job_name, job_text = read_first(env, *_JOB_INDEX)
    job_index, replicas = read_integer(env, job_name, 0), read_integer(env, read_first(env, *_REPLICAS)[0], 0)
    if job_text and job_index and not replicas:
        raise TopologyError(
            f"{job_name}={job_index}, but the number of jobs is unknown: set JOBSET_REPLICAS by "
            "valueFrom.fieldRef.fieldPath metadata.labels['jobset.sigs.k8s.io/replicatedjob-replicas']"
        )
    if nodes % max(1, replicas):
        raise TopologyError(
            f"NNODES={nodes} must be a multiple of {replicas} replicated jobs: it counts all pods "
            "that train, replicas times parallelism"
        )
    rank = job_index * (nodes // max(1, replicas)) + index
    check_rank("the node", rank, nodes, f"NNODES={nodes}")
    address = env.get("MASTER_ADDR", "")
    if nodes > 1 and not address:
        if not group:
            raise TopologyError(
                "JOBSET_NAME is set, but neither MASTER_ADDR nor REPLICATED_JOB_NAME gives node 0's host: "
                "set REPLICATED_JOB_NAME by metadata.labels['jobset.sigs.k8s.io/replicatedjob-name']"
            )
        address = f"{name}-{group}-0-0.{name}"
    return _topology(env, "JOBSET_NAME", rank, nodes, address, name, group)


def from_indexed_job(env: Mapping[str, str]) -> Topology:
    """Read an indexed Job: NNODES is its `completions`, MASTER_ADDR the host of its first pod."""
    index, source = _index(env), "JOB_COMPLETION_INDEX"
    if index == 0 and not any(env.get(name) for name in (*_COUNTS, "MASTER_ADDR")):
        alone = "JOB_COMPLETION_INDEX=0 and no NNODES: this pod trains alone"
        return Topology(source, warnings=(alone,))
    nodes = _count(env, "Job")
    check_rank(source, index, nodes, f"NNODES={nodes}")
    address = env.get("MASTER_ADDR", "")
    if nodes > 1 and not address:
        raise TopologyError(
            f"NNODES={nodes}, but MASTER_ADDR is not set to node 0: with a headless service and "
            "`subdomain` in the pod's template it is JOB-0.SERVICE"
        )
    return _topology(env, source, index, nodes, address)


def _index(env: Mapping[str, str]) -> int:
    if not env.get("JOB_COMPLETION_INDEX"):
        raise TopologyError(
            "JOBSET_NAME is set, but JOB_COMPLETION_INDEX is not: the jobs of the JobSet need "
            "completionMode: Indexed"
        )
    return read_integer(env, "JOB_COMPLETION_INDEX")


def _count(env: Mapping[str, str], kind: str) -> int:
    name, text = read_first(env, *_COUNTS)
    if not text:
        raise TopologyError(
            f"the number of training pods of this {kind} is unknown: set NNODES in the manifest to "
            "its completions (for a JobSet, replicas times completions)"
        )
    count = read_integer(env, name)
    if count < 1:
        raise TopologyError(f"{name}={text} must be a number of nodes")
    return count


def _topology(
    env: Mapping[str, str], source: str, rank: int, nodes: int, address: str, *shared: str
) -> Topology:
    port = read_integer(env, "MASTER_PORT", 29500)
    address = address or "127.0.0.1"
    return Topology(
        source, node_rank=rank, nodes=nodes, address=address, port=port, job=job_id(env, nodes, port, *shared)
    )
