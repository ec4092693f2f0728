"""Quota of ClusterQueues by flavor and resource, and whether workloads fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from tui.domain.kubernetes import quantity
from tui.emulator.kubernetes.operators.kueue.workloads import has_quota, status_of
from tui.emulator.kubernetes.operators.metadata import name_of
from tui.emulator.kubernetes.operators.resources import Amounts, pod_requests, render
from tui.emulator.kubernetes.resources import Obj

FlavorResource = tuple[str, str]
"""Flavor and resource."""
NONE = Decimal(0)


@dataclass(frozen=True)
class QuotaLimit:
    """Quota of one resource and flavor in a queue."""

    nominal: Decimal
    borrowing: Decimal | None


@dataclass
class Queue:
    """A ClusterQueue and the usage of its workloads."""

    obj: Obj
    limits: dict[FlavorResource, QuotaLimit]
    used: dict[FlavorResource, Decimal] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The queue's name."""
        return name_of(self.obj)

    @property
    def cohort(self) -> str:
        """Name of the cohort whose queues lend each other quota; "" if there is no cohort."""
        return str(self.obj["spec"].get("cohortName") or "")

    @property
    def groups(self) -> list[Obj]:
        """Groups of resources that share flavors."""
        return self.obj["spec"].get("resourceGroups") or []

    def take(self, usage: Mapping[FlavorResource, Decimal], sign: int = 1) -> None:
        """Add usage, or release it with -1."""
        for key, amount in usage.items():
            self.used[key] = self.used.get(key, NONE) + sign * amount


def usage_of(workload: Obj) -> dict[FlavorResource, Decimal]:
    """Return the usage of an admitted workload."""
    total: dict[FlavorResource, Decimal] = {}
    for assignment in (status_of(workload).get("admission") or {}).get("podSetAssignments") or ():
        for resource, flavor in (assignment.get("flavors") or {}).items():
            amount = quantity.parse((assignment.get("resourceUsage") or {}).get(resource, "0"))
            total[flavor, resource] = total.get((flavor, resource), NONE) + amount
    return total


class KueueQuotas:
    """All queues and their usage."""

    def __init__(self, queues: Iterable[Obj], flavors: Iterable[Obj], workloads: Iterable[Obj]) -> None:
        self.queues = {name_of(obj): Queue(obj, _limits(obj)) for obj in queues}
        self.flavors = {name_of(obj): obj for obj in flavors}
        for workload in workloads:
            if has_quota(workload):
                queue = self.queues.get((status_of(workload).get("admission") or {}).get("clusterQueue", ""))
                if queue is not None:
                    queue.take(usage_of(workload))

    def _peers(self, queue: Queue) -> list[Queue]:
        return [peer for peer in self.queues.values() if queue.cohort and peer.cohort == queue.cohort] or [
            queue
        ]

    def most(self, queue: Queue, key: FlavorResource) -> Decimal:
        """Return the queue's maximum if all quota were unused."""
        limit = queue.limits.get(key, QuotaLimit(NONE, None))
        total = sum((peer.limits[key].nominal for peer in self._peers(queue) if key in peer.limits), NONE)
        return total if limit.borrowing is None else min(total, limit.nominal + limit.borrowing)

    def free(self, queue: Queue, key: FlavorResource) -> Decimal:
        """Return the quota that is still available to the queue."""
        limit = queue.limits.get(key, QuotaLimit(NONE, None))
        peers = self._peers(queue)
        total = sum((peer.limits[key].nominal for peer in peers if key in peer.limits), NONE)
        left = total - sum((peer.used.get(key, NONE) for peer in peers), NONE)
        if limit.borrowing is None:
            return left
        return min(left, limit.nominal + limit.borrowing - queue.used.get(key, NONE))

    def missing_flavors(self, queue: Queue) -> list[str]:
        """Return the queue's flavors that do not exist."""
        named = [flavor.get("name", "") for group in queue.groups for flavor in group.get("flavors") or ()]
        return [name for name in named if name not in self.flavors]


def _limits(obj: Obj) -> dict[FlavorResource, QuotaLimit]:
    limits = {}
    for group in obj["spec"].get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for resource in flavor.get("resources") or ():
                borrowing = resource.get("borrowingLimit")
                limits[flavor.get("name", ""), resource.get("name", "")] = QuotaLimit(
                    quantity.parse(resource.get("nominalQuota") or "0"),
                    None if borrowing is None else quantity.parse(borrowing),
                )
    return limits


@dataclass
class Assignment:
    """The flavors for a workload, or why none fit."""

    pod_sets: list[Obj] = field(default_factory=list)
    usage: dict[FlavorResource, Decimal] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    """Reasons why the workload does not fit, one per pod set."""
    fits: bool = True
    may_preempt: bool = False
    """Whether the workload would fit if others released quota."""
    reason: str = ""

    @property
    def message(self) -> str:
        """All reasons in one message."""
        return "; ".join(self.reasons)


def assign(quotas: KueueQuotas, queue: Queue, workload: Obj) -> Assignment:
    """Choose a flavor for each resource of each pod set: the first that has room, or a flavor that other
    workloads use if no flavor has room."""
    result = Assignment(may_preempt=True)
    for pods in workload["spec"]["podSets"]:
        spec, count = (pods.get("template") or {}).get("spec") or {}, int(pods["count"])
        requests = {name: amount * count for name, amount in pod_requests(spec).items()}
        covered = {name for group in queue.groups for name in group.get("coveredResources") or ()}
        if "pods" in covered:
            requests["pods"] = Decimal(count)
        flavors: dict[str, str] = {}
        for resource in requests:
            if resource not in covered:
                _refuse(result, pods["name"], [f"resource {resource} unavailable in ClusterQueue"])
                result.reason, result.may_preempt = "NoMatchingFlavor", False
        for group in queue.groups:
            amounts = {
                name: requests[name] for name in group.get("coveredResources") or () if name in requests
            }
            if amounts:
                flavors |= _assign_group(quotas, queue, result, pods, group=group, amounts=amounts)
        for name, flavor in flavors.items():
            key = (flavor, name)
            result.usage[key] = result.usage.get(key, NONE) + requests[name]
        result.pod_sets.append(
            {
                "name": pods["name"],
                "flavors": flavors,
                "resourceUsage": {name: render(name, requests[name]) for name in flavors},
                "count": count,
            }
        )
    return result


def _refuse(result: Assignment, pod_set: str, reasons: list[str]) -> None:
    result.fits = False
    result.reasons.append(f"couldn't assign flavors to pod set {pod_set}: {', '.join(reasons)}")


def _assign_group(
    quotas: KueueQuotas, queue: Queue, result: Assignment, pods: Obj, *, group: Obj, amounts: Amounts
) -> dict[str, str]:
    """Find one flavor for all resources of a group; if no flavor has room, a flavor that other workloads
    use."""
    reasons: list[str] = []
    taken_by_others = ""
    beyond = False
    for flavor in group.get("flavors") or ():
        name = flavor["name"]
        mismatch = _mismatch(quotas, name, (pods.get("template") or {}).get("spec") or {}, group)
        if mismatch:
            reasons.append(mismatch)
            continue
        why, possible = _why_not(quotas, queue, result, name, amounts)
        if not why:
            return dict.fromkeys(amounts, name)
        reasons += why
        beyond = beyond or not possible
        if possible and not taken_by_others:
            taken_by_others = name
    _refuse(result, pods["name"], reasons)
    if taken_by_others:
        result.reason = result.reason or "WaitingForQuota"
        return dict.fromkeys(amounts, taken_by_others)
    result.may_preempt = False
    result.reason = "ExceedsMaxQuota" if beyond else "NoMatchingFlavor"
    return {}


def _why_not(
    quotas: KueueQuotas, queue: Queue, result: Assignment, flavor: str, amounts: Amounts
) -> tuple[list[str], bool]:
    """Return why the amounts do not fit into a flavor now, and whether they could ever fit."""
    reasons, possible = [], True
    for resource, amount in sorted(amounts.items()):
        key = (flavor, resource)
        before = result.usage.get(key, NONE)
        most, free = quotas.most(queue, key), quotas.free(queue, key)
        if before + amount > most:
            possible = False
            reasons.append(
                f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets "
                f"requests ({render(resource, before)}) + current podset request "
                f"({render(resource, amount)}) > maximum capacity ({render(resource, most)})"
            )
        elif before + amount > free:
            more = render(resource, before + amount - max(free, NONE))
            reasons.append(f"insufficient unused quota for {resource} in flavor {flavor}, {more} more needed")
    return reasons, possible


def _mismatch(quotas: KueueQuotas, name: str, spec: Obj, group: Obj) -> str:
    """Return why the pods can't run on a flavor's nodes, or "" if there is no problem."""
    flavor = quotas.flavors.get(name)
    if flavor is None:
        return f"flavor {name} not found"
    own = flavor.get("spec") or {}
    tolerations = [*(spec.get("tolerations") or ()), *(own.get("tolerations") or ())]
    for taint in own.get("nodeTaints") or ():
        hard = taint.get("effect") in ("NoSchedule", "NoExecute")
        if hard and not any(tolerates(toleration, taint) for toleration in tolerations):
            shown = f"{taint['key']} {taint.get('value', '')} {taint['effect']} <nil>"
            return f"untolerated taint {{{shown}}} in flavor {name}"
    labels = own.get("nodeLabels") or {}
    known = set()
    for other in group.get("flavors") or ():
        known |= set(((quotas.flavors.get(other["name"]) or {}).get("spec") or {}).get("nodeLabels") or ())
    selector = spec.get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in selector.items() if key in known):
        return f"flavor {name} doesn't match node affinity"
    return ""


def tolerates(toleration: Obj, taint: Obj) -> bool:
    """Return whether the toleration matches the taint."""
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("key") in (None, ""):
        return toleration.get("operator") == "Exists"
    if toleration["key"] != taint["key"]:
        return False
    return toleration.get("operator") == "Exists" or (toleration.get("value") or "") == (
        taint.get("value") or ""
    )
