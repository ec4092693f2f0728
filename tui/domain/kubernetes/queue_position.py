"""How many workloads are before one in its queues, from Kueue's PendingWorkloadsSummary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tui.domain.kubernetes.conditions import conditions_of
from tui.domain.kubernetes.workloads import at, elements, fields, whole

Obj = Mapping[str, Any]


def is_pending(workload: Obj) -> bool:
    """Whether a Workload is among those that its queue has yet to admit."""
    held = {entry.type for entry in conditions_of(workload) if entry.true}
    return at(workload, "spec", "active") is not False and not held & {"QuotaReserved", "Finished"}


def position_words(summary: Obj, workload: Obj) -> str:
    """What is before a Workload, in a sentence; "" where the summary has it not.

    Positions count from 0 (Kueue, pkg/visibility): they are how many are before it.
    """
    name = at(workload, "metadata", "name")
    for item in map(fields, elements(summary, "items")):
        if at(item, "metadata", "name") == name:
            local, cluster = (
                whole(item.get(f"positionIn{queue}Queue")) or 0 for queue in ("Local", "Cluster")
            )
            if not cluster:
                return "It is the next of its ClusterQueue."
            first = f"{local} before it" if local else "It is the next"
            return f"{first} in its LocalQueue, {cluster} before it in the ClusterQueue."
    return ""
