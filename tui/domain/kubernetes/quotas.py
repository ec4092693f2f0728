"""A cluster's capacity: node pools' allocatable, quotas of Kueue's ClusterQueues, and ResourceQuotas.

Amounts are integers: CPUs in cores, memory and storage in GiB, and other resources in units. Limits are
rounded down and usage is rounded up, so the displayed free amount is really free.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from tui.domain.core.quota import Quota
from tui.domain.kubernetes.accelerators import VERTEX
from tui.domain.kubernetes.quantity import NotAQuantity, parse
from tui.domain.kubernetes.workloads import ACCELERATOR, GPU, SPOT, at
from tui.domain.vertex import catalog

Obj = Mapping[str, Any]
CLUSTER = "cluster"
"""Displayed namespace of resources that the entire cluster shares."""
_POOL_LABELS = ("cloud.google.com/gke-nodepool", ACCELERATOR)
_NODE_RESOURCES = ("cpu", "memory", GPU)
_GIB = Decimal(1 << 30)
_BYTES = frozenset({"memory", "storage", "ephemeral-storage"})
_WORDS = {"cpu": "CPUs", "memory": "memory GiB", GPU: "GPUs", "storage": "storage GiB",
          "ephemeral-storage": "ephemeral storage GiB"}  # fmt: skip
_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class ClusterObjects:
    """API objects with quotas; `None` if unreadable or not served."""

    nodes: Sequence[Obj] | None = None
    pods: Sequence[Obj] | None = None
    """All pods on nodes, for the usage of node pools."""
    cluster_queues: Sequence[Obj] | None = None
    local_queues: Sequence[Obj] | None = None
    flavors: Sequence[Obj] | None = None
    resource_quotas: Sequence[Obj] | None = None


def quotas_of(cluster: ClusterObjects, read_at: datetime) -> list[Quota]:
    """Return all quotas: first of queues, then of namespaces, then of node pools."""
    return [
        *_queues(cluster, read_at),
        *_resource_quotas(cluster.resource_quotas or (), read_at),
        *_node_pools(cluster, read_at),
    ]


def _amount(resource: str, text: object, *, up: bool) -> int | None:
    """Return `text` in the displayed unit; `None` if it is not a quantity."""
    try:
        value = parse(text)
    except NotAQuantity:
        return None
    return _whole(resource, value, up=up)


def _whole(resource: str, value: Decimal, *, up: bool) -> int:
    if _plain(resource) in _BYTES:
        value /= _GIB
    whole = int(value)
    return whole + (up and value > whole)


def _plain(resource: str) -> str:
    """Remove a prefix: `memory` for `requests.memory`."""
    for stem in ("requests.", "limits."):
        resource = resource.removeprefix(stem)
    return resource


def _word(resource: str) -> str:
    name = _plain(resource)
    return f"{_WORDS.get(name, name)}{' (limits)' if resource.startswith('limits.') else ''}"


# Queues


def _queues(cluster: ClusterObjects, read_at: datetime) -> list[Quota]:
    spot = {_name(flavor) for flavor in cluster.flavors or () if _is_spot(at(flavor, "spec", "nodeLabels"))}
    if cluster.cluster_queues is not None:
        return [quota for queue in cluster.cluster_queues for quota in _cluster_queue(queue, spot, read_at)]
    # A team member may be able to read only the queues of a namespace, which have no limits.
    return [quota for queue in cluster.local_queues or () for quota in _local_queue(queue, spot, read_at)]


def _cluster_queue(queue: Obj, spot: set[str], read_at: datetime) -> Iterable[Quota]:
    used = _use_by_flavor(queue)
    for group in at(queue, "spec", "resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for resource in flavor.get("resources") or ():
                names = str(flavor.get("name", "")), str(resource.get("name", ""))
                yield _quota(
                    f"ClusterQueue {_name(queue)} · {names[0]}", CLUSTER, names[1],
                    (_amount(names[1], resource.get("nominalQuota"), up=False), used.get(names)),
                    read_at, spot=names[0] in spot,
                )  # fmt: skip


def _local_queue(queue: Obj, spot: set[str], read_at: datetime) -> Iterable[Quota]:
    for (flavor, resource), used in _use_by_flavor(queue).items():
        title = f"LocalQueue {_name(queue)} · {flavor}"
        yield _quota(title, _namespace(queue), resource, (None, used), read_at, spot=flavor in spot)


def _use_by_flavor(queue: Obj) -> dict[tuple[str, str], int | None]:
    """Return the reserved amounts of admitted workloads and of workloads that wait for their checks."""
    return {
        (str(flavor.get("name", "")), str(resource.get("name", ""))): _amount(
            str(resource.get("name", "")), resource.get("total", 0), up=True
        )
        for flavor in at(queue, "status", "flavorsReservation") or ()
        for resource in flavor.get("resources") or ()
    }


# Namespaces


def _resource_quotas(quotas: Iterable[Obj], read_at: datetime) -> Iterable[Quota]:
    for quota in quotas:
        used = at(quota, "status", "used") or {}
        for resource, hard in (at(quota, "spec", "hard") or {}).items():
            yield _quota(
                f"ResourceQuota {_name(quota)}", _namespace(quota), resource,
                (
                    _amount(resource, hard, up=False),
                    _amount(resource, used[resource], up=True) if resource in used else None,
                ),
                read_at,
            )  # fmt: skip


# Nodes


@dataclass(slots=True)
class _Pool:
    spot: bool
    accelerator: str = ""
    nodes: int = 0
    ready: int = 0
    allocatable: dict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    used: dict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))


def _node_pools(cluster: ClusterObjects, read_at: datetime) -> Iterable[Quota]:
    """Yield each node pool's quotas. The limit counts nodes that accept pods; the usage counts all nodes."""
    pools: dict[tuple[str, bool], _Pool] = {}
    of_node: dict[str, _Pool] = {}
    for node in cluster.nodes or ():
        labels = at(node, "metadata", "labels") or {}
        title = next((str(labels[key]) for key in _POOL_LABELS if key in labels), "")
        spot = _is_spot(labels)
        pool = of_node[_name(node)] = pools.setdefault((title, spot), _Pool(spot))
        pool.nodes += 1
        pool.accelerator = pool.accelerator or str(labels.get(ACCELERATOR, ""))
        if _takes_pods(node):
            pool.ready += 1
            _add(pool.allocatable, at(node, "status", "allocatable") or {})
    for pod in cluster.pods or ():
        owner = of_node.get(str(at(pod, "spec", "nodeName") or ""))
        if owner is not None and at(pod, "status", "phase") not in _ENDED:
            _add(owner.used, pod_requests(pod))
    for (title, _), pool in sorted(pools.items()):
        away = f", {pool.nodes - pool.ready} accept no pods" if pool.ready < pool.nodes else ""
        count = f"{pool.nodes} {'node' if pool.nodes == 1 else 'nodes'}{away}"
        for resource in _NODE_RESOURCES:
            if not pool.allocatable[resource] and not pool.used[resource]:
                continue
            used = None if cluster.pods is None else _whole(resource, pool.used[resource], up=True)
            yield _quota(
                f"Node pool {title or 'without a name'} ({count})", CLUSTER, resource,
                (_whole(resource, pool.allocatable[resource], up=False), used), read_at, spot=pool.spot,
                hardware=_hardware(resource, pool.accelerator),
            )  # fmt: skip


def _hardware(resource: str, accelerator: str) -> str:
    """Return the resource's word in Vertex AI's metrics, or "" if they have no word."""
    if resource == GPU:
        return catalog.quota_word(VERTEX.get(accelerator, ""))
    return "cpus" if resource == "cpu" else ""


def pod_requests(pod: Obj) -> dict[str, Decimal]:
    """Return a pod's requests: the sum of its containers, or its largest init container if higher. An init
    container that keeps running (restartPolicy Always) counts with the containers."""
    total: dict[str, Decimal] = defaultdict(Decimal)
    most: dict[str, Decimal] = defaultdict(Decimal)
    spec = pod.get("spec") or {}
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            _add(total, _requests(container))
            continue
        for resource, amount in _requests(container).items():
            most[resource] = max(most[resource], total[resource] + amount)
    for container in spec.get("containers") or ():
        _add(total, _requests(container))
    for resource, amount in most.items():
        total[resource] = max(total[resource], amount)
    _add(total, spec.get("overhead") or {})
    return dict(total)


def _requests(container: Obj) -> dict[str, Decimal]:
    """Return a container's requests; a limit without a request counts as a request."""
    resources = container.get("resources") or {}
    both = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    total: dict[str, Decimal] = defaultdict(Decimal)
    _add(total, both)
    return total


def _add(total: dict[str, Decimal], amounts: Mapping[str, object]) -> None:
    for resource, text in amounts.items():
        try:
            amount = text if isinstance(text, Decimal) else parse(text)
        except NotAQuantity:
            continue
        total[resource] += amount


def _takes_pods(node: Obj) -> bool:
    """Return whether the node is ready and not cordoned."""
    ready = any(
        entry.get("type") == "Ready" and entry.get("status") == "True"
        for entry in at(node, "status", "conditions") or ()
    )
    return ready and not at(node, "spec", "unschedulable")


def _quota(
    title: str,
    namespace: str,
    resource: str,
    amounts: tuple[int | None, int | None],
    read_at: datetime,
    *,
    spot: bool = False,
    hardware: str = "",
) -> Quota:
    """Build a quota; `amounts` are the limit and the usage."""
    limit, used = amounts
    return Quota(
        metric=f"{title}/{resource}",
        region=namespace,
        limit=limit,
        used=used,
        display_name=f"{title} · {_word(resource)}",
        unit=_plain(resource),
        preemptible=spot,
        limit_read_at=read_at,
        used_at=read_at,
        named=True,
        hardware=hardware,
    )


def _is_spot(labels: object) -> bool:
    return isinstance(labels, Mapping) and str(labels.get(SPOT, "")).lower() == "true"


def _name(obj: Obj) -> str:
    return str(at(obj, "metadata", "name") or "")


def _namespace(obj: Obj) -> str:
    return str(at(obj, "metadata", "namespace") or "")
