"""Decides which workloads get quota, wait or are preempted, from the objects alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tui.emulator.kubernetes.operators.kueue.quota import Assignment, KueueQuotas, Queue, assign, usage_of
from tui.emulator.kubernetes.operators.kueue.workloads import (
    has_quota,
    holds,
    priority_of,
    status_of,
    turn,
)
from tui.emulator.kubernetes.operators.metadata import is_terminating, name_of, namespace_of, uid_of
from tui.emulator.kubernetes.resources import Obj


@dataclass(frozen=True)
class QueueWait:
    """Reason why a workload has no quota."""

    reason: str
    message: str


@dataclass(frozen=True)
class Preemption:
    """A workload that is preempted for another workload."""

    victim: Obj
    preemptor: Obj
    reason: str
    path: tuple[str, str]
    """Paths of the preemptor's and the victim's queue, each with its cohort."""


@dataclass
class Decisions:
    """The decisions of one scheduler pass."""

    admitted: list[tuple[Obj, Obj]] = field(default_factory=list)
    """Workloads and their admissions."""
    waiting: list[tuple[Obj, QueueWait]] = field(default_factory=list)
    evicted: list[tuple[Obj, str, str]] = field(default_factory=list)
    """Workloads, each with reason and message."""
    preempted: list[Preemption] = field(default_factory=list)


@dataclass(frozen=True)
class KueueObjects:
    """The objects that decisions are based on."""

    cluster_queues: list[Obj]
    local_queues: list[Obj]
    flavors: list[Obj]
    workloads: list[Obj]
    namespaces: Mapping[str, Obj]


HUMAN = {
    "InClusterQueue": "prioritization in the ClusterQueue",
    "InCohortReclamation": "reclamation within the cohort",
}


def schedule(world: KueueObjects) -> Decisions:
    """Decide about all workloads."""
    return _Pass(world).decide()


class _Pass:
    def __init__(self, world: KueueObjects) -> None:
        self.world = world
        self.result = Decisions()
        self.local = {(namespace_of(queue), name_of(queue)): queue for queue in world.local_queues}
        self.cluster = {name_of(queue): queue for queue in world.cluster_queues}
        active = [workload for workload in world.workloads if not holds(workload, "Finished")]
        self.quotas = KueueQuotas(world.cluster_queues, world.flavors, active)
        self.reserved = [workload for workload in active if has_quota(workload)]
        self.pending = [
            workload for workload in active if not has_quota(workload) and not is_terminating(workload)
        ]

    def decide(self) -> Decisions:
        for workload in self.reserved:
            self._evict_if_stopped(workload)
        lines: dict[str, list[Obj]] = {}
        for workload in sorted(self.pending, key=turn):
            why = self._ineligible(workload)
            if why is None:
                lines.setdefault(self._cluster_queue(workload), []).append(workload)
            else:
                self.result.waiting.append((workload, why))
        while lines:
            # Of the queues' heads, prefer a workload that fits its own queue's quota.
            name = min(
                lines,
                key=lambda queue_name: (
                    self._borrows(queue_name, lines[queue_name][0]),
                    turn(lines[queue_name][0]),
                ),
            )
            workload, queue = lines[name].pop(0), self.quotas.queues[name]
            admitted = self._admit(workload, queue)
            strict = queue.obj["spec"].get("queueingStrategy") == "StrictFIFO"
            if not lines[name] or (strict and not admitted):
                del lines[name]
        return self.result

    def _borrows(self, name: str, workload: Obj) -> bool:
        """Return whether a workload exceeds the quota of its own queue."""
        queue = self.quotas.queues[name]
        assignment = assign(self.quotas, queue, workload)
        return any(
            queue.used.get(key, 0) + amount > queue.limits[key].nominal
            for key, amount in assignment.usage.items()
            if key in queue.limits
        )

    def _cluster_queue(self, workload: Obj) -> str:
        queue = self.local.get((namespace_of(workload), workload["spec"].get("queueName", "")))
        return str(queue["spec"].get("clusterQueue", "")) if queue else ""

    def _evict_if_stopped(self, workload: Obj) -> None:
        if holds(workload, "Evicted"):
            return
        if workload["spec"].get("active") is False:
            self.result.evicted.append((workload, "Deactivated", "The workload is deactivated"))
            return
        local = self.local.get((namespace_of(workload), workload["spec"].get("queueName", "")))
        name = (status_of(workload).get("admission") or {}).get("clusterQueue", "")
        cluster = self.cluster.get(name)
        if cluster is not None and cluster["spec"].get("stopPolicy") == "HoldAndDrain":
            self.result.evicted.append((workload, "ClusterQueueStopped", "The ClusterQueue is stopped"))
        elif local is not None and local["spec"].get("stopPolicy") == "HoldAndDrain":
            self.result.evicted.append((workload, "LocalQueueStopped", "The LocalQueue is stopped"))

    def _ineligible(self, workload: Obj) -> QueueWait | None:
        """Return why a workload is excluded from scheduling."""
        queue_name = workload["spec"].get("queueName", "")
        local = self.local.get((namespace_of(workload), queue_name))
        if workload["spec"].get("active") is False:
            return QueueWait("Suspended", "The workload is deactivated")
        if local is None:
            return QueueWait("Misconfigured", f"LocalQueue {queue_name} doesn't exist")
        if (local["spec"].get("stopPolicy") or "None") != "None":
            return QueueWait("Suspended", f"LocalQueue {queue_name} is inactive")
        name = self._cluster_queue(workload)
        cluster = self.cluster.get(name)
        if cluster is None:
            return QueueWait("Misconfigured", f"ClusterQueue {name} doesn't exist")
        if why_inactive(self.quotas, cluster):
            return QueueWait("Suspended", f"ClusterQueue {name} is inactive")
        if not self._matches(cluster["spec"].get("namespaceSelector"), namespace_of(workload)):
            return QueueWait("Misconfigured", "Workload namespace doesn't match ClusterQueue selector")
        return None

    def _matches(self, selector: Obj | None, namespace: str) -> bool:
        """Return whether a selector matches a namespace; a missing selector matches none."""
        if selector is None:
            return False
        metadata = (self.world.namespaces.get(namespace) or {}).get("metadata") or {}
        labels = {"kubernetes.io/metadata.name": namespace, **(metadata.get("labels") or {})}
        if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
            return False
        return all(_meets(expression, labels) for expression in selector.get("matchExpressions") or ())

    def _admit(self, workload: Obj, queue: Queue) -> bool:
        """Reserve quota for a workload or record why it waits; return whether it is admitted."""
        assignment = assign(self.quotas, queue, workload)
        if assignment.fits:
            queue.take(assignment.usage)
            admission = {"clusterQueue": queue.name, "podSetAssignments": assignment.pod_sets}
            self.result.admitted.append((workload, admission))
            return True
        victims = self._victims(workload, queue, assignment) if assignment.may_preempt else []
        if not victims:
            self.result.waiting.append((workload, QueueWait(assignment.reason, assignment.message)))
            return False
        for victim, reason in victims:
            if not holds(victim, "Evicted"):
                path = (_path(queue.obj), _path(self._queue_of(victim).obj))
                self.result.preempted.append(Preemption(victim, workload, reason, path))
        # The released quota is reserved for the preemptor.
        queue.take(assignment.usage)
        message = f"{assignment.message}. Pending the preemption of {len(victims)} workload(s)"
        self.result.waiting.append((workload, QueueWait("WaitingForPreemptedWorkloads", message)))
        return False

    def _queue_of(self, workload: Obj) -> Queue:
        return self.quotas.queues[status_of(workload)["admission"]["clusterQueue"]]

    def _victims(self, workload: Obj, queue: Queue, assignment: Assignment) -> list[tuple[Obj, str]]:
        """Return the fewest workloads, least important and newest first, whose quota lets this one fit."""
        candidates = []
        for other in self.reserved:
            reason = self._may_preempt(workload, queue, other)
            if reason and set(usage_of(other)) & set(assignment.usage):
                candidates.append((other, reason))
        candidates.sort(
            key=lambda candidate: (not holds(candidate[0], "Evicted"), *_least_important(candidate[0]))
        )
        chosen: list[tuple[Obj, str]] = []
        for other, reason in candidates:
            self._queue_of(other).take(usage_of(other), -1)
            chosen.append((other, reason))
            if assign(self.quotas, queue, workload).fits:
                break
        fits = assign(self.quotas, queue, workload).fits
        if fits:
            for other, reason in list(reversed(chosen))[1:]:
                self._queue_of(other).take(usage_of(other))
                if assign(self.quotas, queue, workload).fits:
                    chosen.remove((other, reason))
                else:
                    self._queue_of(other).take(usage_of(other), -1)
        for other, _ in chosen:
            self._queue_of(other).take(usage_of(other))
        return chosen if fits else []

    def _may_preempt(self, workload: Obj, queue: Queue, other: Obj) -> str:
        """Return the reason that allows preempting another workload, or "" if there is none."""
        theirs = self._queue_of(other)
        policy = queue.obj["spec"].get("preemption") or {}
        if theirs is queue:
            allowed, reason = policy.get("withinClusterQueue") or "Never", "InClusterQueue"
        elif queue.cohort and theirs.cohort == queue.cohort:
            allowed, reason = policy.get("reclaimWithinCohort") or "Never", "InCohortReclamation"
            borrows = any(
                theirs.used.get(key, 0) > theirs.limits[key].nominal
                for key in usage_of(other)
                if key in theirs.limits
            )
            if not borrows:
                return ""
        else:
            return ""
        ours, its = priority_of(workload), priority_of(other)
        newer = turn(other)[1:] > turn(workload)[1:]
        meets = {
            "Any": True,
            "LowerPriority": its < ours,
            "LowerOrNewerEqualPriority": its < ours or (its == ours and newer),
        }
        return reason if meets.get(allowed, False) else ""


def _least_important(workload: Obj) -> tuple[int, str, str]:
    since = next(
        (
            condition["lastTransitionTime"]
            for condition in status_of(workload).get("conditions") or ()
            if condition["type"] == "QuotaReserved"
        ),
        "",
    )
    # Invert the characters to sort the newest first.
    return priority_of(workload), "".join(chr(0x10FFFF - ord(char)) for char in since), uid_of(workload)


def _meets(requirement: Obj, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(requirement["key"]), requirement.get("values") or ()
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[requirement["operator"]]


def _path(queue: Obj) -> str:
    cohort = queue["spec"].get("cohortName")
    return f"/{cohort}/{name_of(queue)}" if cohort else f"/{name_of(queue)}"


def why_inactive(quotas: KueueQuotas, queue: Obj) -> tuple[str, str] | None:
    """Return reason and message of an inactive ClusterQueue, or None."""
    if is_terminating(queue):
        return "Terminating", "Can't admit new workloads; clusterQueue is terminating"
    reasons = []
    if (queue["spec"].get("stopPolicy") or "None") != "None":
        reasons.append(("Stopped", "is stopped"))
    missing = quotas.missing_flavors(quotas.queues[name_of(queue)])
    if missing:
        reasons.append(("FlavorNotFound", f"references missing ResourceFlavor(s): {','.join(missing)}"))
    if not reasons:
        return None
    return reasons[0][0], f"Can't admit new workloads: {', '.join(text for _, text in reasons)}."
