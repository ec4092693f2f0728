"""Worker pools of Vertex AI as replica groups: a pool's position is its role (docs/facts/vertex.md 1.3)."""

from __future__ import annotations

from tui.domain.core.replica import PARAMETER_SERVER, REDUCER, ReplicaGroup

PREFIX = "workerpool"
"""Prefix of every replica's name in a custom job."""
_ROLES = ("primary", "worker", PARAMETER_SERVER, "evaluator")


def worker_pool(
    position: int,
    replicas: int,
    machine_type: str = "",
    accelerator_type: str = "",
    accelerator_count: int = 0,
    *,
    image: str = "",
    reduction_server: bool = False,
) -> ReplicaGroup:
    """Return the pool at this position, 0 to 3; `reduction_server` is true for Reduction Server's image."""
    role = _ROLES[position] if position < len(_ROLES) else f"pool {position}"
    if role == PARAMETER_SERVER and reduction_server:
        role = REDUCER
    return ReplicaGroup(
        f"{PREFIX}{position}", role, replicas, machine_type, accelerator_type, accelerator_count, image
    )
