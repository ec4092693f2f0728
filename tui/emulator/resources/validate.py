"""Server-side checks of persistent resources; see `tui.emulator.vertex.validate`.

The rules come from the documentation of PersistentResource, ResourcePool and AutoscalingSpec. A pool's
machine and disk follow the rules of a worker pool.
"""

from __future__ import annotations

from collections.abc import Iterator

from tui.emulator.messages import Pb
from tui.emulator.vertex.validate import MAX_DISPLAY_NAME, below, resource_problems
from tui.emulator.vertex.validate_pools import Problem, machine_problems


def persistent_resource_problems(resource: Pb, location: str) -> list[Problem]:
    """Return every reason to refuse a new or changed persistent resource; the result is empty if it is
    valid."""
    # Unlike a job, it needs no display name.
    problems = [
        problem
        for problem in resource_problems(resource, location)
        if problem[0] != "display_name" or len(resource.display_name) > MAX_DISPLAY_NAME
    ]
    if not resource.resource_pools:
        problems.append(("resource_pools", "is required"))
    ids: set[str] = set()
    for index, pool in enumerate(resource.resource_pools):
        path = f"resource_pools[{index}]"
        problems += below(path, (*machine_problems(pool), *_size(pool)))
        if pool.id and pool.id in ids:
            problems.append((f"{path}.id", f"{pool.id!r} must be unique among the pools"))
        ids.add(pool.id)
    if resource.resource_runtime_spec.HasField("ray_spec"):
        problems.append(
            ("resource_runtime_spec.ray_spec", "must be empty: the emulator runs no Ray clusters")
        )
    return list(below("persistent_resource", problems))


def _size(pool: Pb) -> Iterator[Problem]:
    if not pool.HasField("autoscaling_spec"):
        if pool.replica_count < 1:
            yield "replica_count", f"must be at least 1 without autoscaling_spec , not {pool.replica_count}"
        return
    scaling, count = pool.autoscaling_spec, pool.replica_count
    least, greatest = scaling.min_replica_count, scaling.max_replica_count
    if least < 1:
        yield "autoscaling_spec.min_replica_count", f"must be > 0 for a persistent resource , not {least}"
    if greatest <= least:
        yield "autoscaling_spec.max_replica_count", f"must be > min_replica_count ({least}), not {greatest}"
    if pool.HasField("replica_count") and not least <= count <= max(least, greatest):
        yield "replica_count", f"must be from {least} to {greatest}, the autoscaling range, not {count}"
