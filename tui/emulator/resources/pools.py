"""Resource pools: their sizes, and the pools that fit a worker pool of a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from google.cloud.aiplatform_v1.types import accelerator_type

from tui.domain.vertex.catalog import quota_metrics
from tui.emulator.messages import Pb
from tui.emulator.vertex.validate_pools import accelerator_name

DISK_TYPE, DISK_GB = "pd-ssd", 100
"""Defaults of an empty DiskSpec (docs/facts/vertex.md 1.3)."""


def most(pool: Pb) -> int:
    """Return the maximum number of replicas that a resource pool can have."""
    return int(pool.autoscaling_spec.max_replica_count or pool.replica_count)


def size(pool: Pb, used: int) -> int:
    """Return the replicas of a resource pool while `used` are in use. Autoscaling follows immediately."""
    least = pool.autoscaling_spec.min_replica_count
    return max(int(least), used) if pool.HasField("autoscaling_spec") else int(pool.replica_count)


def alike(worker_pool: Pb, pool: Pb) -> bool:
    """Return whether machine and disk are identical (docs/facts/vertex.md 12.2)."""
    return bool(worker_pool.machine_spec == pool.machine_spec and disk(worker_pool) == disk(pool))


def disk(pool: Pb) -> tuple[str, int]:
    """Return the type and size in GB of the boot disk."""
    spec = pool.disk_spec
    return spec.boot_disk_type or DISK_TYPE, int(spec.boot_disk_size_gb or DISK_GB)


def assign(spec: Pb, pools: Sequence[Pb], used: Mapping[str, int]) -> Counter[str] | None:
    """Assign all worker pools of a job. Return replicas by resource pool id, `None` while they do not fit."""
    assigned: Counter[str] = Counter()
    for worker_pool in spec.worker_pool_specs:
        count = worker_pool.replica_count
        if not worker_pool.ListFields():
            continue
        for pool in pools:
            free = most(pool) - used.get(pool.id, 0) - assigned[pool.id]
            if alike(worker_pool, pool) and count <= free:
                assigned[pool.id] += count
                break
        else:
            return None
    return assigned


def unfit(spec: Pb, pools: Sequence[Pb]) -> tuple[int, str] | None:
    """Return the first worker pool that can never run on these pools, and the reason."""
    for index, worker_pool in enumerate(spec.worker_pool_specs):
        if not worker_pool.ListFields():
            continue
        fits = [pool for pool in pools if alike(worker_pool, pool)]
        if not fits:
            has = "; ".join(described(pool) for pool in pools)
            return index, f"does not match any resource pool: {described(worker_pool)}; it has {has}"
        limit = max(most(pool) for pool in fits)
        if worker_pool.replica_count > limit:
            asks = f"{worker_pool.replica_count} replicas of {described(worker_pool)}"
            return index, f"requests too much capacity: {asks}; the resource pool has {limit}"
    if assign(spec, pools, {}) is None:
        return (
            0,
            "and the other pools request more capacity together than the resource pools have",
        )
    return None


def described(pool: Pb) -> str:
    """Describe machine and disk."""
    machine = pool.machine_spec
    kind, count = accelerator_name(machine), machine.accelerator_count
    with_what = f" with {count} × {kind}" if kind else ""
    topology = f" of {machine.tpu_topology}" if machine.tpu_topology else ""
    kind_of_disk, gigabytes = disk(pool)
    return f"{machine.machine_type}{topology}{with_what}, {kind_of_disk} of {gigabytes} GB"


def quota_needs(resource: Pb) -> dict[str, int]:
    """Return the training quota that the machines of a persistent resource use, by metric."""
    total: Counter[str] = Counter()
    for pool in resource.resource_pools:
        machine = pool.machine_spec
        kind = accelerator_type.AcceleratorType(machine.accelerator_type).name
        amounts = quota_metrics(machine.machine_type, kind, machine.accelerator_count, preemptible=False)
        for metric, amount in amounts.items():
            total[metric] += amount * pool.replica_count
    return dict(total)
