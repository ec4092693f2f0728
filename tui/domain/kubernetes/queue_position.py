"""A workload's position in its queues, from Kueue's PendingWorkloadsSummary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tui.domain.kubernetes.conditions import conditions_of
from tui.domain.kubernetes.workloads import at, elements, fields, whole

Obj = Mapping[str, Any]


def is_pending(workload: Obj) -> bool:
    """Whether the queue has yet to admit the Workload."""
    held = {entry.type for entry in conditions_of(workload) if entry.true}
    return at(workload, "spec", "active") is not False and not held & {"QuotaReserved", "Finished"}


def position_words(summary: Obj, workload: Obj) -> str:
    """Return a Workload's position as a sentence, or "" if the summary does not list it.

    Positions count from 0 (Kueue, pkg/visibility): each is the number of workloads before it.
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
