"""Small endpoints: eviction of a pod, and the pending workloads of a queue."""

from __future__ import annotations

from collections.abc import Mapping

from tui.emulator.kubernetes.api.request import Target, whole
from tui.emulator.kubernetes.errors import BadRequest
from tui.emulator.kubernetes.node.disruption import EVICTION_API, disrupt
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.operators.kueue.workloads import turn
from tui.emulator.kubernetes.resources import PODS, Obj

_KUEUE = "kueue.x-k8s.io"
_LIMIT = 1000
"""Default limit of a summary, as in Kueue."""


def evict(objects: Objects, target: Target, eviction: Obj, *, dry_run: bool = False) -> Obj:
    """Evict a pod; the emulated cluster has no disruption budgets.

    The pod's condition marks the disruption, which the operators' policies can match.
    """
    if str((eviction.get("metadata") or {}).get("name") or target.name) != target.name:
        raise BadRequest("name in URL does not match name in Eviction object")
    options = eviction.get("deleteOptions") or {}
    grace = options.get("gracePeriodSeconds")
    uid = str((options.get("preconditions") or {}).get("uid") or "")
    dry_run = dry_run or options.get("dryRun") == ["All"]
    if dry_run:
        objects.delete(PODS, target.namespace, target.name, grace=grace, uid=uid, dry_run=True)
    else:
        disrupt(objects, target.namespace, target.name, EVICTION_API, grace=grace, uid=uid)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def pending_workloads(objects: Objects, target: Target, query: Mapping[str, str]) -> Obj:
    """Return the pending workloads of a LocalQueue or ClusterQueue, in the order of admission. Raises
    ApiNotFound if the queue does not exist."""
    cluster_queue, local = target.name, target.plural == "localqueues"
    local_queues = objects.resource("localqueues", _KUEUE)
    if local:
        queue = objects.get(local_queues, target.namespace, target.name)
        cluster_queue = str((queue.get("spec") or {}).get("clusterQueue") or "")
    else:
        objects.get(objects.resource("clusterqueues", _KUEUE), "", cluster_queue)
    served = {
        (local_queue["metadata"]["namespace"], local_queue["metadata"]["name"])
        for local_queue in objects.list(local_queues)
        if (local_queue.get("spec") or {}).get("clusterQueue") == cluster_queue
    }
    waiting = [
        candidate
        for candidate in objects.list(objects.resource("workloads", _KUEUE))
        if _waits(candidate, served)
    ]
    waiting.sort(key=turn)
    places: dict[tuple[str, str], int] = {}
    items = []
    for position, workload in enumerate(waiting):
        meta, spec = workload["metadata"], workload["spec"]
        queue_key = (str(meta["namespace"]), str(spec["queueName"]))
        place = places[queue_key] = places.get(queue_key, -1) + 1
        if local and queue_key != (target.namespace, target.name):
            continue
        kept = ("name", "namespace", "creationTimestamp", "ownerReferences")
        items.append(
            {
                "metadata": {key: meta[key] for key in kept if key in meta},
                "priority": int(spec.get("priority") or 0),
                "localQueueName": spec["queueName"],
                "positionInClusterQueue": position,
                "positionInLocalQueue": place,
            }
        )
    offset = whole(query, "offset")
    return {
        "kind": "PendingWorkloadsSummary",
        "apiVersion": "visibility.kueue.x-k8s.io/v1beta2",
        "metadata": {},
        "items": items[offset : offset + (whole(query, "limit") or _LIMIT)],
    }


def _waits(workload: Obj, served: set[tuple[str, str]]) -> bool:
    spec = workload.get("spec") or {}
    conditions = (workload.get("status") or {}).get("conditions") or []
    holds = {condition["type"] for condition in conditions if condition.get("status") == "True"}
    queued = (workload["metadata"]["namespace"], spec.get("queueName")) in served
    return queued and spec.get("active", True) and not holds & {"QuotaReserved", "Finished"}
