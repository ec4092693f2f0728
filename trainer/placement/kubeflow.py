"""Read PET_* and MASTER_*: a PyTorchJob of the Training Operator v1, a TrainJob of Trainer v2, or torchrun's
flags.

A PyTorchJob's variables are set in `pkg/controller.v1/pytorch/{envvar,elastic,master}.go` (v1.9), a
TrainJob's in `pkg/runtime/framework/plugins/torch/torch.go` (v2.3).
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from trainer.placement.topology import Topology, TopologyError, split_port
from trainer.placement.variables import check_rank, job_id, pod_index, read_first, read_integer

_RENDEZVOUS_PORT = 29400
"""torchrun's port, for a PET_RDZV_ENDPOINT without a port."""
_INDEX_LABEL = "metadata.labels['training.kubeflow.org/replica-index']"


def from_ranks(env: Mapping[str, str], source: str, *, per_process: bool) -> Topology:
    """Read RANK and WORLD_SIZE, of nodes or of processes."""
    rank, world = read_integer(env, "RANK"), read_integer(env, "WORLD_SIZE")
    check_rank("RANK", rank, world, f"WORLD_SIZE={world}")
    return Topology(
        source,
        node_rank=rank,
        nodes=world,
        address=env.get("MASTER_ADDR", "127.0.0.1"),
        port=read_integer(env, "MASTER_PORT", 29500),
        per_process=per_process,
        job=job_id(env, world, env.get("MASTER_PORT", "")),
    )


def from_pet(env: Mapping[str, str]) -> Topology:
    """Read PET_*, which is all that a TrainJob sets.

    A PyTorchJob with a Master also sets MASTER_*, RANK and WORLD_SIZE (nodes times processes). An elastic
    PyTorchJob without a Master sets PET_RDZV_ENDPOINT but no rank, which is in the pod's name.
    """
    least, most = _bounds(env["PET_NNODES"])
    elastic = least < most
    with_master = bool(env.get("RANK") or env.get("PET_NODE_RANK")) and bool(env.get("MASTER_ADDR"))
    if elastic and with_master:
        # The bounds count the Worker replicas, without the Master.
        least, most = least + 1, most + 1
    rank = _rank(env, most)
    address, port = _node_0(env, most)
    processes = _processes(env)
    return Topology(
        "PET_NNODES",
        node_rank=rank,
        nodes=most,
        address=address,
        port=port,
        job=job_id(env, env["PET_NNODES"], env.get("PET_RDZV_ENDPOINT", "") or port),
        hosts=_hosts(address, port, most) if elastic and not with_master else (),
        minimum=least if elastic else 0,
        processes=processes,
        warnings=_doubts(env, most, processes) if not elastic else (),
    )


def _bounds(text: str) -> tuple[int, int]:
    """Parse `min:max` as the minimum and maximum; a single number is used for both."""
    low, colon, high = text.partition(":")
    least = read_integer({"PET_NNODES": low}, "PET_NNODES")
    most = read_integer({"PET_NNODES": high}, "PET_NNODES") if colon else least
    if not 1 <= least <= most:
        raise TopologyError(f"PET_NNODES={text} must be a number of nodes, or MIN:MAX with MIN up to MAX")
    return least, most


def _rank(env: Mapping[str, str], nodes: int) -> int:
    ranks = {name: read_integer(env, name) for name in ("PET_NODE_RANK", "RANK") if env.get(name)}
    if len(set(ranks.values())) > 1:
        named = " and ".join(f"{name}={rank}" for name, rank in ranks.items())
        raise TopologyError(
            f"{named} give two ranks to this node: an operator sets both alike, so remove the one that the "
            "manifest or the image sets"
        )
    name, rank = next(iter(ranks.items()), ("", 0))
    if not name and nodes > 1:
        name, rank = "HOSTNAME", _rank_of_pod(env)
    check_rank(name, rank, nodes, f"PET_NNODES={env['PET_NNODES']}")
    return rank


def _rank_of_pod(env: Mapping[str, str]) -> int:
    hostname = env.get("HOSTNAME", "")
    pod = pod_index(hostname)
    if pod is None or pod[1] != "worker":
        raise TopologyError(
            f"PET_NNODES={env['PET_NNODES']}, but neither PET_NODE_RANK nor RANK is set, "
            f"and HOSTNAME={hostname!r} is not JOB-worker-N (with hostNetwork it is the machine's name). Set "
            f"PET_NODE_RANK in the manifest, by valueFrom.fieldRef.fieldPath {_INDEX_LABEL}"
        )
    return pod[2]


def _node_0(env: Mapping[str, str], nodes: int) -> tuple[str, int]:
    """Return the address and port of node 0."""
    address = env.get("PET_MASTER_ADDR") or env.get("MASTER_ADDR")
    if address:
        name, _ = read_first(env, "PET_MASTER_PORT", "MASTER_PORT")
        return address, read_integer(env, name, 29500)
    if env.get("PET_RDZV_ENDPOINT"):
        return split_port(env["PET_RDZV_ENDPOINT"], _RENDEZVOUS_PORT)
    if nodes > 1:
        raise TopologyError(
            f"PET_NNODES={env['PET_NNODES']}, but neither PET_MASTER_ADDR nor PET_RDZV_ENDPOINT names "
            "node 0: set one of them to the first pod's name and port"
        )
    return "127.0.0.1", 29500


def _hosts(address: str, port: int, nodes: int) -> tuple[str, ...]:
    """Return the hosts of an elastic job, whose operator creates a service per replica, named like node 0's
    service."""
    pod = pod_index(address)
    if pod is None or pod[1:] != ("worker", 0):
        return ()
    domain = address.partition(".")[1:]
    return tuple(f"{pod[0]}-worker-{index}{''.join(domain)}:{port}" for index in range(nodes))


def _processes(env: Mapping[str, str]) -> int:
    """Parse PET_NPROC_PER_NODE as torchrun does: a number, `gpu`, `auto` or `cpu`."""
    text = env.get("PET_NPROC_PER_NODE", "")
    if text in {"", "gpu", "auto"}:
        return 0
    if text == "cpu":
        return os.cpu_count() or 1
    count = read_integer(env, "PET_NPROC_PER_NODE")
    if count < 1:
        raise TopologyError(f"PET_NPROC_PER_NODE={text} must be at least 1: correct nprocPerNode of the job")
    return count


def _doubts(env: Mapping[str, str], nodes: int, processes: int) -> tuple[str, ...]:
    """Return a warning if WORLD_SIZE (then set by the manifest) counts neither nodes nor processes."""
    if not env.get("WORLD_SIZE") or read_integer(env, "WORLD_SIZE") in {nodes, nodes * max(1, processes)}:
        return ()
    return (f"WORLD_SIZE={env['WORLD_SIZE']} but PET_NNODES has {nodes} nodes; using {nodes}",)
