"""Kueue's scheduler: applies the decisions of `schedule` and updates the queues' status."""

from __future__ import annotations

import time
from collections.abc import Iterable

from tui.emulator.kubernetes.controller import Controller, Key
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.operators import store
from tui.emulator.kubernetes.operators.kueue.queue_status import cluster_queue_status, local_queue_status
from tui.emulator.kubernetes.operators.kueue.quota import KueueQuotas
from tui.emulator.kubernetes.operators.kueue.schedule import (
    HUMAN,
    Decisions,
    KueueObjects,
    Preemption,
    schedule,
)
from tui.emulator.kubernetes.operators.kueue.workloads import Conditions, priority_of
from tui.emulator.kubernetes.operators.metadata import labels_of, name_of, namespace_of, seconds_until, uid_of
from tui.emulator.kubernetes.resources import Obj
from tui.emulator.kubernetes.watching import WatchEvent

GROUP = "kueue.x-k8s.io"
REST = 4
"""Minimum delay before a pass, as a multiple of the last pass's duration, because changes come in bursts."""


class QueueScheduler(Controller):
    """Schedules all queues under one key, since they compete for quota."""

    name = "kueue-admission"

    def __init__(self, objects: Objects) -> None:
        super().__init__(objects)
        self.workloads = objects.resource("workloads", GROUP)
        self.local_queues = objects.resource("localqueues", GROUP)
        self.cluster_queues = objects.resource("clusterqueues", GROUP)
        self.flavors = objects.resource("resourceflavors", GROUP)
        self.namespaces = objects.resource("namespaces")
        self.watched = (self.workloads, self.local_queues, self.cluster_queues, self.flavors)
        self._took = 0.0

    def keys(self, event: WatchEvent) -> Iterable[Key]:
        return (Key(self.cluster_queues, "", ""),)

    def enqueue(self, key: Key, delay: float = 0.0) -> None:
        super().enqueue(key, max(delay, self._took * REST))

    def reconcile(self, key: Key) -> float | None:
        start = time.process_time()
        self._carry_out(schedule(self._world()))
        self._report()
        self._took = time.process_time() - start
        return None

    def _world(self) -> KueueObjects:
        return KueueObjects(
            cluster_queues=self.objects.list(self.cluster_queues),
            local_queues=self.objects.list(self.local_queues),
            flavors=self.objects.list(self.flavors),
            workloads=self.objects.list(self.workloads),
            namespaces={name_of(namespace): namespace for namespace in self.objects.list(self.namespaces)},
        )

    def _carry_out(self, decisions: Decisions) -> None:
        for workload, reason, message in decisions.evicted:
            answer = self._conditions(workload)
            answer.evict(reason, message)
            self._store(workload, answer)
            self.report(workload, f"EvictedDueTo{reason}", message)
        for preemption in decisions.preempted:
            self._preempt(preemption)
        for workload, wait in decisions.waiting:
            answer = self._conditions(workload)
            if answer.wait(wait.reason, wait.message):
                self._store(workload, answer)
                self.report(workload, wait.reason, wait.message, warning=True)
        for workload, admission in decisions.admitted:
            answer = self._conditions(workload)
            answer.reserve(admission)
            self._store(workload, answer)
            queue = admission["clusterQueue"]
            waited = -seconds_until(workload["metadata"]["creationTimestamp"], 0, self.objects.now())
            text = f"Quota reserved in ClusterQueue {queue}, wait time since queued was {waited:.0f}s"
            self.report(workload, "QuotaReserved", text)
            self.report(
                workload, "Admitted", f"Admitted by ClusterQueue {queue}, wait time since reservation was 0s"
            )

    def _preempt(self, preemption: Preemption) -> None:
        victim, preemptor = preemption.victim, preemption.preemptor
        job = labels_of(preemptor).get("kueue.x-k8s.io/job-uid", "UNKNOWN")
        ours, theirs = preemption.path
        message = (
            f"Preempted to accommodate a workload (UID: {uid_of(preemptor)}, JobUID: {job}) due to "
            f"{HUMAN[preemption.reason]}; preemptor path: {ours}; preemptee path: {theirs}"
        )
        answer = self._conditions(victim)
        answer.evict("Preempted", message)
        answer.put("Preempted", preemption.reason, message)
        self._store(victim, answer)
        high, low = priority_of(preemptor), priority_of(victim)
        priorities = (
            f"; preemptor effective priority: {high} (base: {high}, boost: 0); preemptee effective priority: "
            f"{low} (base: {low}, boost: 0)"
        )
        self.report(victim, "EvictedDueToPreempted", message)
        self.report(victim, "Preempted", message + priorities)

    def _conditions(self, workload: Obj) -> Conditions:
        stored = self.objects.find(self.workloads, namespace_of(workload), name_of(workload))
        return Conditions(stored or workload, self.objects.now())

    def _store(self, workload: Obj, answer: Conditions) -> None:
        store.set_status(self.objects, self.workloads, workload, answer.status)

    def _report(self) -> None:
        world = self._world()
        quotas = KueueQuotas(world.cluster_queues, world.flavors, world.workloads)
        now = self.objects.now()
        for queue in world.cluster_queues:
            status = cluster_queue_status(queue, world, quotas, now)
            store.set_status(self.objects, self.cluster_queues, queue, status)
        for queue in world.local_queues:
            status = local_queue_status(queue, world, quotas, now)
            store.set_status(self.objects, self.local_queues, queue, status)
