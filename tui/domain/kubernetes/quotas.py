"""What may run on a cluster: node pools' allocatable, quotas of Kueue's ClusterQueues, ResourceQuotas.

Amounts are whole: CPUs as cores, memory and storage as GiB, all else as it is counted. A limit is rounded
down and a use rounded up, so that what is shown as free is there.
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
from tui.domain.vertex import catalog

Obj = Mapping[str, Any]
CLUSTER = "cluster"
"""Stands for the namespace of what the whole cluster shares."""
SPOT = "cloud.google.com/gke-spot"
_ACCELERATOR = "cloud.google.com/gke-accelerator"
_POOL_LABELS = ("cloud.google.com/gke-nodepool", _ACCELERATOR)
_GPUS = "nvidia.com/gpu"
_NODE_RESOURCES = ("cpu", "memory", _GPUS)
_GIB = Decimal(1 << 30)
_BYTES = frozenset({"memory", "storage", "ephemeral-storage"})
_WORDS = {"cpu": "CPUs", "memory": "memory GiB", _GPUS: "GPUs", "storage": "storage GiB",
          "ephemeral-storage": "ephemeral storage GiB"}  # fmt: skip
_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class ClusterObjects:
    """What the quotas are read from, as the API has it; `None` where it may not be read or is not served."""

    nodes: Sequence[Obj] | None = None
    pods: Sequence[Obj] | None = None
    """All that are on nodes."""
    cluster_queues: Sequence[Obj] | None = None
    local_queues: Sequence[Obj] | None = None
    flavors: Sequence[Obj] | None = None
    resource_quotas: Sequence[Obj] | None = None


def quotas_of(cluster: ClusterObjects, read_at: datetime) -> list[Quota]:
    """All quotas: those of queues, then of namespaces, then what node pools have."""
    return [
        *_queues(cluster, read_at),
        *_resource_quotas(cluster.resource_quotas or (), read_at),
        *_node_pools(cluster, read_at),
    ]


def _amount(resource: str, text: object, *, up: bool) -> int | None:
    """`text` in the unit that is shown; `None` for what is no quantity."""
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
    """`memory` of `requests.memory`."""
    for stem in ("requests.", "limits."):
        resource = resource.removeprefix(stem)
    return resource


def _word(resource: str) -> str:
    name = _plain(resource)
    return f"{_WORDS.get(name, name)}{' (limits)' if resource.startswith('limits.') else ''}"


# Queues


def _queues(cluster: ClusterObjects, read_at: datetime) -> list[Quota]:
    spot = {_name(flavor) for flavor in cluster.flavors or () if _is_spot(_at(flavor, "spec", "nodeLabels"))}
    if cluster.cluster_queues is not None:
        return [quota for queue in cluster.cluster_queues for quota in _cluster_queue(queue, spot, read_at)]
    # A person of a team may read the queues of a namespace alone, which name no limit.
    return [quota for queue in cluster.local_queues or () for quota in _local_queue(queue, spot, read_at)]


def _cluster_queue(queue: Obj, spot: set[str], read_at: datetime) -> Iterable[Quota]:
    used = _use_by_flavor(queue)
    for group in _at(queue, "spec", "resourceGroups") or ():
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
    """What is reserved: an admitted workload's and that of one that waits for its checks."""
    return {
        (str(flavor.get("name", "")), str(resource.get("name", ""))): _amount(
            str(resource.get("name", "")), resource.get("total", 0), up=True
        )
        for flavor in _at(queue, "status", "flavorsReservation") or ()
        for resource in flavor.get("resources") or ()
    }


# Namespaces


def _resource_quotas(quotas: Iterable[Obj], read_at: datetime) -> Iterable[Quota]:
    for quota in quotas:
        used = _at(quota, "status", "used") or {}
        for resource, hard in (_at(quota, "spec", "hard") or {}).items():
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
    """Only nodes that take new pods count for the limit; the use of all does."""
    pools: dict[tuple[str, bool], _Pool] = {}
    of_node: dict[str, _Pool] = {}
    for node in cluster.nodes or ():
        labels = _at(node, "metadata", "labels") or {}
        title = next((str(labels[key]) for key in _POOL_LABELS if key in labels), "")
        spot = _is_spot(labels)
        pool = of_node[_name(node)] = pools.setdefault((title, spot), _Pool(spot))
        pool.nodes += 1
        pool.accelerator = pool.accelerator or str(labels.get(_ACCELERATOR, ""))
        if _takes_pods(node):
            pool.ready += 1
            _add(pool.allocatable, _at(node, "status", "allocatable") or {})
    for pod in cluster.pods or ():
        owner = of_node.get(str(_at(pod, "spec", "nodeName") or ""))
        if owner is not None and _at(pod, "status", "phase") not in _ENDED:
            _add(owner.used, pod_requests(pod))
    for (title, _), pool in sorted(pools.items()):
        away = f", {pool.nodes - pool.ready} take no pods" if pool.ready < pool.nodes else ""
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
    """The word for it among Vertex AI's metrics; "" where those have none."""
    if resource == _GPUS:
        return catalog.quota_word(VERTEX.get(accelerator, ""))
    return "cpus" if resource == "cpu" else ""


def pod_requests(pod: Obj) -> dict[str, Decimal]:
    """What a pod asks for: the sum of its containers, or what one init container asks for where that is more.

    An init container that goes on beside the others (restartPolicy Always) counts with them.
    """
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
    """A limit without a request is a request."""
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
    """Neither cordoned nor not ready."""
    ready = any(
        entry.get("type") == "Ready" and entry.get("status") == "True"
        for entry in _at(node, "status", "conditions") or ()
    )
    return ready and not _at(node, "spec", "unschedulable")


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
    """`amounts` are the limit and the use."""
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
    return str(_at(obj, "metadata", "name") or "")


def _namespace(obj: Obj) -> str:
    return str(_at(obj, "metadata", "namespace") or "")


def _at(value: Any, *path: str) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
