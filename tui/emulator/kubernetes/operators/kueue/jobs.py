"""Kueue's job controller: a workload for each queued job, which starts on admission."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable

from tui.emulator.kubernetes.controller import Controller, Key, key_of, owner_keys
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.operators import conditions, store
from tui.emulator.kubernetes.operators.kueue.job_kinds import (
    PRIORITY_LABEL,
    QUEUE_LABEL,
    PodSetInfo,
    QueuedKind,
    queued_kinds,
)
from tui.emulator.kubernetes.operators.kueue.workloads import (
    Conditions,
    holds,
    is_admitted,
    new_workload,
    spec_of,
    status_of,
    workload_name,
)
from tui.emulator.kubernetes.operators.metadata import (
    is_controlled_by,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
)
from tui.emulator.kubernetes.resources import ApiResource, Obj
from tui.emulator.kubernetes.watching import WatchEvent

GROUP = "kueue.x-k8s.io"
NOT_READY = "Not all pods are ready or succeeded"
FAILED_POD = "At least one pod has failed, waiting for recovery"
READY = "All pods reached readiness and the workload is running"


class QueuedJobs(Controller):
    """Reconciles queued jobs of all kinds with their workloads."""

    name = "kueue-job-controller"

    def __init__(self, objects: Objects) -> None:
        super().__init__(objects)
        self.workloads = objects.resource("workloads", GROUP)
        self.flavors = objects.resource("resourceflavors", GROUP)
        self.kinds: dict[ApiResource, QueuedKind] = {}
        for kind in queued_kinds(objects):
            for resource in objects.resources:
                if (resource.plural, resource.group) == (kind.plural, kind.group):
                    self.kinds[resource] = kind
        self.watched = (self.workloads, *self.kinds)

    def keys(self, event: WatchEvent) -> Iterable[Key]:
        if event.resource == self.workloads:
            owners = [key for resource in self.kinds for key in owner_keys(event.obj, resource)]
            return [*owners, key_of(self.workloads, event.obj)]
        # A job without the label is left alone; its workload still triggers its key.
        return [key_of(event.resource, event.obj)] if labels_of(event.obj).get(QUEUE_LABEL) else []

    def reconcile(self, key: Key) -> float | None:
        if key.resource == self.workloads:
            self._release(key)
            return None
        job = self.objects.find(key.resource, key.namespace, key.name)
        # A job with an owner is part of another job, as the Job of a JobSet.
        if job is None or is_terminating(job) or job["metadata"].get("ownerReferences"):
            return None
        queue = labels_of(job).get(QUEUE_LABEL)
        if queue:
            _QueuedJob(self, key.resource, self.kinds[key.resource], job).reconcile(queue)
        return None

    def _release(self, key: Key) -> None:
        """Remove the finalizers of a workload that is being deleted."""
        workload = self.objects.find(self.workloads, key.namespace, key.name)
        if workload is not None and is_terminating(workload):
            store.change(
                self.objects,
                self.workloads,
                workload,
                lambda stored: stored["metadata"].pop("finalizers", None),
            )


class _QueuedJob:
    """Reconciles one queued job."""

    def __init__(self, controller: QueuedJobs, resource: ApiResource, kind: QueuedKind, job: Obj) -> None:
        self.objects, self.report = controller.objects, controller.report
        self.workloads, self.flavors = controller.workloads, controller.flavors
        self.resource, self.kind, self.job = resource, kind, job

    def reconcile(self, queue: str) -> None:
        workload = self._workload()
        ended = self.kind.finished(self.job)
        if ended is not None:
            if workload is not None:
                self._finish(workload, *ended)
            return
        pod_sets = self.kind.pod_sets(copy.deepcopy(self.job))
        if not pod_sets:
            return  # the runtime of a TrainJob may not exist yet
        if workload is None:
            self._stop(None, "Missing Workload; unable to restore pod templates")
            self._create(queue)
            return
        if holds(workload, "Finished"):
            return
        if not self._agrees(workload, queue):
            return
        self._report_pods(workload)
        if holds(workload, "Evicted"):
            self._evict(workload)
        elif self.kind.is_suspended(self.job):
            if is_admitted(workload):
                self._start(workload)
        elif not is_admitted(workload):
            self._stop(workload, "Not admitted by cluster queue")

    def _workload(self) -> Obj | None:
        workload = self.objects.find(self.workloads, namespace_of(self.job), workload_name(self.job))
        return workload if workload is not None and is_controlled_by(workload, self.job) else None

    def _say(self, reason: str, message: str) -> None:
        self.report(self.job, reason, message)

    def _key(self, workload: Obj) -> str:
        return f"{namespace_of(workload)}/{name_of(workload)}"

    def _create(self, queue: str) -> None:
        plain = copy.deepcopy(self.job)
        workload = new_workload(plain, queue, self.kind.pod_sets(plain), self._priority())
        if store.create(self.objects, workload):
            self._say("CreatedWorkload", f"Created Workload: {self._key(workload)}")

    def _priority(self) -> Obj:
        named = labels_of(self.job).get(PRIORITY_LABEL)
        group, kind = GROUP, "WorkloadPriorityClass"
        if not named:
            named = self.kind.priority_class(copy.deepcopy(self.job))
            group, kind = "scheduling.k8s.io", "PriorityClass"
        if not named:
            return {"priority": 0}
        priority = self.objects.find(self.objects.resource(kind, group), "", named)
        value = int((priority or {}).get("value") or 0)
        return {"priority": value, "priorityClassRef": {"group": group, "kind": kind, "name": named}}

    def _agrees(self, workload: Obj, queue: str) -> bool:
        """Return whether the workload matches the job; otherwise update or replace the workload."""
        known = {pods["name"]: pods["count"] for pods in workload["spec"]["podSets"]}
        current = {pods.name: pods.count for pods in self.kind.pod_sets(copy.deepcopy(self.job))}
        if known == current:
            if workload["spec"].get("queueName") != queue and not holds(workload, "QuotaReserved"):
                self._set_spec(workload, queueName=queue)
                return False
            return True
        if self.kind.is_suspended(self.job) and not holds(workload, "QuotaReserved"):
            self._set_spec(workload, podSets=spec_of(self.kind.pod_sets(copy.deepcopy(self.job))))
            text = f"Updated not matching Workload for suspended job: {self._key(workload)}"
            self._say("UpdatedWorkload", text)
            return False
        text = "No matching Workload; restoring pod templates according to existent Workload"
        self._stop(workload, text)
        if store.delete(self.objects, self.workloads, namespace_of(workload), name_of(workload)):
            self._say("DeletedWorkload", f"Deleted not matching Workload: {self._key(workload)}")
        return False

    def _set_spec(self, workload: Obj, **fields: object) -> None:
        store.change(self.objects, self.workloads, workload, lambda stored: stored["spec"].update(fields))

    def _finish(self, workload: Obj, message: str, succeeded: bool) -> None:
        if holds(workload, "Finished"):
            return
        answer = Conditions(workload, self.objects.now())
        answer.put("Finished", "Succeeded" if succeeded else "Failed", message)
        self._store(workload, answer)
        self._say("FinishedWorkload", f"Workload '{self._key(workload)}' is declared finished")

    def _store(self, workload: Obj, answer: Conditions) -> None:
        store.set_status(self.objects, self.workloads, workload, answer.status)

    def _report_pods(self, workload: Obj) -> None:
        answer = Conditions(workload, self.objects.now())
        before = conditions.find(status_of(workload), "PodsReady") or {}
        recovers = before.get("reason") in ("WaitForRecovery", "Recovered")
        if not is_admitted(workload):
            changed = answer.put("PodsReady", "WaitForStart", NOT_READY, "False")
        elif self.kind.pods_ready(self.job):
            changed = answer.put("PodsReady", "Recovered" if recovers else "Started", READY)
        elif before.get("status") == "True" or before.get("reason") == "WaitForRecovery":
            changed = answer.put("PodsReady", "WaitForRecovery", FAILED_POD, "False")
        else:
            changed = answer.put("PodsReady", "WaitForStart", NOT_READY, "False")
        if changed:
            self._store(workload, answer)

    def _evict(self, workload: Obj) -> None:
        """Stop the job and release its quota once no pod runs."""
        evicted = conditions.find(status_of(workload), "Evicted") or {}
        self._stop(workload, str(evicted.get("message", "")))
        if self.kind.is_active(self.job) or not self.kind.is_suspended(self.job):
            return
        stored = self._workload()
        if stored is None or not holds(stored, "QuotaReserved"):
            return
        answer = Conditions(stored, self.objects.now())
        value = "True" if evicted["reason"] == "Preempted" else "False"
        answer.put("Requeued", evicted["reason"], evicted["message"], value)
        answer.wait("PendingEvaluation", evicted["message"])
        self._store(stored, answer)

    def _start(self, workload: Obj) -> None:
        admission = status_of(workload)["admission"]
        infos = [self._info(assignment) for assignment in admission["podSetAssignments"]]

        def edit(stored: Obj) -> None:
            self.kind.inject(stored, infos)
            self.kind.suspend(stored, False)

        self._change(edit)
        self._say("Started", f"Admitted by clusterQueue {admission['clusterQueue']}")

    def _info(self, assignment: Obj) -> PodSetInfo:
        selector: dict[str, str] = {}
        tolerations: list[Obj] = []
        for name in dict.fromkeys((assignment.get("flavors") or {}).values()):
            spec = (self.objects.find(self.flavors, "", name) or {}).get("spec") or {}
            selector.update(spec.get("nodeLabels") or {})
            tolerations += spec.get("tolerations") or []
        return PodSetInfo(assignment["name"], selector, tolerations)

    def _stop(self, workload: Obj | None, message: str) -> None:
        """Suspend the job and restore its templates from before the admission."""
        if self.kind.is_suspended(self.job):
            return

        self._change(lambda stored: self.kind.suspend(stored, True))
        if workload is not None:
            # Only a suspended Job's template may change.
            originals = [pods["template"] for pods in workload["spec"]["podSets"]]
            self._change(lambda stored: self.kind.restore(stored, originals))
        self._say("Stopped", message)

    def _change(self, edit: Callable[[Obj], None]) -> None:
        store.change(self.objects, self.resource, self.job, edit)
