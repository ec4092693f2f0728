"""Updates of a persistent resource.

The mask names `display_name`, `labels`, `resource_pools`, or a part of the pools such as
`resource_pools.replica_count`. Pools are matched by id, and pools without an id by position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tui.emulator.experiments.resource_service import check_mask, copy_field
from tui.emulator.messages import Pb, copied
from tui.emulator.resources.pools import alike, most
from tui.emulator.rpc.methods import failed_precondition, invalid

_WHOLE = ("display_name", "labels")
_OF_POOLS = ("replica_count", "autoscaling_spec")
_CHANGEABLE = (*_WHOLE, "resource_pools", *(f"resource_pools.{part}" for part in _OF_POOLS))


def updated(present: Pb, requested: Pb, paths: Sequence[str], used: Mapping[str, int]) -> Pb:
    """Return the changed resource. `used` holds the replicas in use by pool id.

    Raises WireError: INVALID_ARGUMENT for the mask or the pools; FAILED_PRECONDITION for fewer replicas than
    are in use.
    """
    check_mask(paths, _CHANGEABLE)
    changed = copied(present)
    for field in _WHOLE:
        if field in paths:
            copy_field(requested, changed, field)
    parts = {path.partition(".")[2] for path in paths if path.startswith("resource_pools")}
    if parts:
        if not requested.resource_pools:
            raise invalid(("persistent_resource.resource_pools", "is required by the update_mask"))
        _update_pools(changed, requested, _OF_POOLS if "" in parts else sorted(parts))
        for pool in changed.resource_pools:
            if most(pool) < used.get(pool.id, 0):
                raise failed_precondition(
                    present.name,
                    f"Jobs use {used[pool.id]} replicas of the resource pool {pool.id}; it can't have fewer "
                    f"({most(pool)}).",
                )
    return changed


def _update_pools(changed: Pb, requested: Pb, fields: Sequence[str]) -> None:
    known = {pool.id: pool for pool in changed.resource_pools}
    for index, pool in enumerate(requested.resource_pools):
        path = f"persistent_resource.resource_pools[{index}]"
        at = known.get(pool.id)
        if not pool.id and index < len(changed.resource_pools):
            at = changed.resource_pools[index]
        if at is None:
            raise invalid(
                (f"{path}.id", f"the pool {pool.id!r} does not exist; existing pools: {', '.join(known)}")
            )
        if pool.HasField("machine_spec") and not alike(pool, at):
            raise invalid((path, "machine_spec and disk_spec of a pool can't be changed"))
        for field in fields:
            copy_field(pool, at, field)
        at.replica_count = at.replica_count or at.autoscaling_spec.min_replica_count
