"""Reduction Server: the number of reducers for a job, and the jobs that gain nothing (docs/facts/vertex.md
4).

Reducers receive the gradients of all workers and send back the sum, so they need the total bandwidth of the
workers: reducers = ceil(workers × worker's Gbps / reducer's Gbps).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tui.domain.document.document_edit import REMOVED, Edit
from tui.domain.spec.custom_job_spec import machine_of, task_of, whole, within
from tui.domain.vertex import catalog

POSITION = 2
"""Index of the worker pool that Reduction Server requires."""
MACHINE = "n1-highcpu-16"
GBPS = 32
"""Bandwidth of one reducer on the recommended machine, in Gbps."""
IMAGE = f"us-docker.pkg.dev/{catalog.REDUCTION_SERVER}:latest"
NO_GAIN = {
    "NVIDIA_H100_MEGA_80GB": "GPUDirect-TCPXO",
    "NVIDIA_H200_141GB": "GPUDirect-RDMA",
    "NVIDIA_B200": "GPUDirect-RDMA",
    "NVIDIA_GB200": "GPUDirect-RDMA",
}
"""GPUs on machines with a faster network than reducers have (docs/facts/vertex.md 3.9 and 4)."""
MAX_GBPS = 200
"""Bandwidth in Gbps above which reducers cost more than they save. Machines have at most 100, or 1,000."""
_POOLS = ("jobSpec", "workerPoolSpecs")
_NEEDS = (
    "The workers' image needs NCCL 2.7 or newer and the package google-reduction-server in place of "
    "google-fast-socket. Only all-reduce gains (DDP, Horovod), not FSDP or ZeRO-3."
)
RECALLED = "The workers' bandwidth is Compute Engine's figure, which Vertex AI does not repeat."


@dataclass(frozen=True, slots=True)
class Proposal:
    """Reduction Server for a job. `count` is 0 if it can't help, with the `reason`.

    `pool` is the worker pool in REST format, None for a count of 0. `note` has requirements of the workers
    and uncertain facts. `running` is the job's current number of reducers.
    """

    count: int
    reason: str
    nodes: int = 0
    worker_gbps: float = 0
    machine_type: str = MACHINE
    pool: Mapping[str, Any] | None = None
    note: str = ""
    running: int = 0

    @property
    def helps(self) -> bool:
        """Whether the proposal has reducers."""
        return self.count > 0


@dataclass(frozen=True, slots=True)
class _Workers:
    nodes: int
    machine_type: str = ""
    accelerator_type: str = ""
    accelerator_count: int = 0
    gbps: float = 0
    certain: bool = True
    unknown: tuple[str, ...] = ()


def propose(job: Mapping[str, Any], region: str = "") -> Proposal:
    """Propose reducers for the GPU workers in pools 0 and 1 of a CustomJob in REST format. `region`
    determines the multi-region of the image."""
    pools = _pools(job)
    running = whole(pools[POSITION].get("replicaCount")) if is_on(job) else 0
    workers = _workers(pools[:POSITION])
    reason = _useless(job, workers)
    if reason:
        return Proposal(0, reason, workers.nodes, workers.gbps, running=running)
    count = math.ceil(workers.gbps / GBPS)
    rate = workers.gbps / workers.nodes
    reason = (
        f"{workers.nodes} workers × {rate:g} Gbps need {count} reducers of {GBPS} Gbps, so that the "
        "reducers send as fast as all workers together."
    )
    note = _NEEDS if workers.certain else f"{_NEEDS} {RECALLED}"
    pool = {
        "machineSpec": {"machineType": MACHINE},
        "replicaCount": count,
        "containerSpec": {"imageUri": image_for(region)},
    }
    return Proposal(count, reason, workers.nodes, workers.gbps, MACHINE, pool, note, running)


def is_on(job: Mapping[str, Any]) -> bool:
    """Return whether the third pool consists of reducers."""
    pools = _pools(job)
    return len(pools) > POSITION and is_reducer(pools[POSITION])


def is_reducer(pool: Mapping[str, Any]) -> bool:
    """Return whether the pool runs Google's Reduction Server image."""
    return catalog.REDUCTION_SERVER in str(task_of(pool)[1].get("imageUri") or "")


def image_for(region: str) -> str:
    """Return Google's image in the multi-region of `region`, or the US image for an unknown region."""
    part = region.split("-", 1)[0]
    near = {"europe": "europe", "me": "europe", "africa": "europe", "asia": "asia", "australia": "asia"}
    return IMAGE.replace("us-", f"{near.get(part, 'us')}-", 1)


def edits_on(job: Mapping[str, Any], region: str = "") -> tuple[Edit, ...]:
    """Return edits of the CustomJob that add the proposed reducers, or no edits without a proposal. Existing
    reducers keep their machine and image; only their number changes."""
    proposal = propose(job, region)
    if not proposal.helps:
        return ()
    pools = _pools(job)
    if is_on(job):
        return (Edit((*_POOLS, POSITION, "replicaCount"), proposal.count),)
    padding = tuple(Edit((*_POOLS, i), {}) for i in range(len(pools), POSITION))
    return (*padding, Edit((*_POOLS, POSITION), proposal.pool))


def edits_off(job: Mapping[str, Any]) -> tuple[Edit, ...]:
    """Return edits of the CustomJob that remove the reducers, and trailing skipped pools."""
    if not is_on(job):
        return ()
    pools = _pools(job)
    if any(pools[POSITION + 1 :]):
        return (Edit((*_POOLS, POSITION), {}),)
    last = POSITION
    while last > 1 and not pools[last - 1]:
        last -= 1
    return tuple(Edit((*_POOLS, i), REMOVED) for i in range(len(pools) - 1, last - 1, -1))


def _pools(job: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [pool or {} for pool in within(job, "jobSpec", "workerPoolSpecs") or []]


def _workers(pools: Sequence[Mapping[str, Any]]) -> _Workers:
    """Return the training machines and their total bandwidth; `unknown` has machines without a known
    bandwidth."""
    nodes, total, certain, unknown = 0, 0.0, True, []
    best = ("", "", 0)
    for pool in pools:
        count = whole(pool.get("replicaCount"))
        if not count:
            continue
        machine = machine_of(pool)
        best = machine if not best[1] else best
        nodes += count
        width = catalog.bandwidth(*machine)
        if width is None:
            unknown.append(machine[0] or "a machine without a type")
        else:
            total += count * width.gbps
            certain = certain and width.certain
    return _Workers(nodes, *best, total, certain, tuple(dict.fromkeys(unknown)))


def _useless(job: Mapping[str, Any], workers: _Workers) -> str:
    """Return why reducers can't help this job; "" if they may help."""
    pools = _pools(job)
    kinds = [machine_of(pool) for pool in pools[:POSITION] if pool]
    gpu = workers.accelerator_type
    if any(catalog.is_tpu(machine) for machine, _, _ in kinds):
        return "TPUs have their own network, and a TPU job has only one pool."
    if not kinds or any(not kind.startswith("NVIDIA_") for _, kind, _ in kinds):
        return "Reduction Server sums gradients that GPU workers send by NCCL; a worker has no GPU."
    if workers.nodes < 2:
        return "A single node sends no gradients over the network; a second pool of GPU workers is missing."
    if within(job, "jobSpec", "scheduling", "strategy") == "FLEX_START":
        return "FLEX_START needs the same machine in every pool; reducers have another machine."
    if len(pools) > POSITION and pools[POSITION] and not is_reducer(pools[POSITION]):
        return "The third pool, the only pool for reducers, is in use."
    direct = next((name for _, kind, _ in kinds if (name := NO_GAIN.get(kind))), "")
    if direct:
        return f"{gpu} machines use {direct}; reducers at {GBPS} Gbps each would slow them down."
    if workers.unknown:
        return f"The bandwidth of {', '.join(workers.unknown)} is unknown, and so is the number of reducers."
    rate = workers.gbps / workers.nodes
    if rate > MAX_GBPS:
        need = math.ceil(rate / GBPS)
        return f"One worker sends {rate:,.0f} Gbps: {need} reducers for each would cost more than they save."
    return ""
