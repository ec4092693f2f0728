"""Status of ClusterQueues and LocalQueues: pending workloads, usage, activity."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from tui.emulator.kubernetes.operators import conditions
from tui.emulator.kubernetes.operators.kueue.quota import NONE, FlavorResource, KueueQuotas, usage_of
from tui.emulator.kubernetes.operators.kueue.schedule import KueueObjects, why_inactive
from tui.emulator.kubernetes.operators.kueue.workloads import has_quota, holds, is_admitted, status_of
from tui.emulator.kubernetes.operators.metadata import name_of, namespace_of
from tui.emulator.kubernetes.operators.resources import render
from tui.emulator.kubernetes.resources import Obj
from tui.emulator.kubernetes.times import rfc3339


def cluster_queue_status(queue: Obj, world: KueueObjects, quotas: KueueQuotas, now: datetime) -> Obj:
    """Return the status of a ClusterQueue."""
    status: Obj = copy.deepcopy(queue.get("status") or {})
    name = name_of(queue)
    locals_ = {
        (namespace_of(local), name_of(local))
        for local in world.local_queues
        if local["spec"].get("clusterQueue") == name
    }
    pending = [workload for workload in world.workloads if _place(workload) in locals_ and _waits(workload)]
    reserving = [
        workload for workload in world.workloads if has_quota(workload) and _queue_of(workload) == name
    ]
    admitted = [workload for workload in reserving if is_admitted(workload)]
    _count(status, pending, reserving, admitted)
    limits = quotas.queues[name].limits
    status["flavorsReservation"] = _usage(queue, reserving, limits)
    status["flavorsUsage"] = _usage(queue, admitted, limits)
    inactive = why_inactive(quotas, queue)
    reason, message = inactive or ("Ready", "Can admit new workloads")
    value = "False" if inactive else "True"
    conditions.put(status, "Active", reason, message, rfc3339(now), value=value)
    return status


def local_queue_status(queue: Obj, world: KueueObjects, quotas: KueueQuotas, now: datetime) -> Obj:
    """Return the status of a LocalQueue."""
    status: Obj = copy.deepcopy(queue.get("status") or {})
    place = (namespace_of(queue), name_of(queue))
    own = [workload for workload in world.workloads if _place(workload) == place]
    reserving = [workload for workload in own if has_quota(workload)]
    admitted = [workload for workload in reserving if is_admitted(workload)]
    _count(status, [workload for workload in own if _waits(workload)], reserving, admitted)
    name = queue["spec"].get("clusterQueue", "")
    cluster = next((other for other in world.cluster_queues if name_of(other) == name), None)
    if cluster is not None:
        status["flavorsReservation"] = _usage(cluster, reserving, None)
        status["flavorsUsage"] = _usage(cluster, admitted, None)
    value, reason, message = _activity(queue, cluster, quotas)
    conditions.put(status, "Active", reason, message, rfc3339(now), value=value)
    return status


def _activity(queue: Obj, cluster: Obj | None, quotas: KueueQuotas) -> tuple[str, str, str]:
    blocked = "Can't submit new workloads to clusterQueue"
    if (queue["spec"].get("stopPolicy") or "None") != "None":
        return "False", "Stopped", "LocalQueue is stopped"
    if cluster is None:
        return "False", "ClusterQueueDoesNotExist", blocked
    if why_inactive(quotas, cluster):
        return "False", "ClusterQueueIsInactive", blocked
    return "True", "Ready", "Can submit new workloads to localQueue"


def _place(workload: Obj) -> tuple[str, str]:
    return namespace_of(workload), str(workload["spec"].get("queueName", ""))


def _waits(workload: Obj) -> bool:
    if workload["spec"].get("active") is False:
        return False
    return not holds(workload, "QuotaReserved") and not holds(workload, "Finished")


def _queue_of(workload: Obj) -> str:
    return str((status_of(workload).get("admission") or {}).get("clusterQueue", ""))


def _count(status: Obj, pending: list[Obj], reserving: list[Obj], admitted: list[Obj]) -> None:
    status["pendingWorkloads"] = len(pending)
    status["reservingWorkloads"] = len(reserving)
    status["admittedWorkloads"] = len(admitted)


def _usage(queue: Obj, workloads: Iterable[Obj], limits: Mapping[FlavorResource, Any] | None) -> list[Obj]:
    """Return the usage by flavor. `limits` adds the borrowed amounts."""
    total: dict[FlavorResource, Decimal] = {}
    for workload in workloads:
        for key, amount in usage_of(workload).items():
            total[key] = total.get(key, NONE) + amount
    flavors = []
    for group in queue["spec"].get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            resources = []
            for resource in flavor.get("resources") or ():
                key = (flavor["name"], resource["name"])
                used = total.get(key, NONE)
                entry = {"name": resource["name"], "total": render(resource["name"], used)}
                if limits is not None:
                    borrowed = max(used - limits[key].nominal, NONE)
                    entry["borrowed"] = render(resource["name"], borrowed)
                resources.append(entry)
            flavors.append({"name": flavor["name"], "resources": resources})
    return flavors
