"""The job controller of `batch/v1`."""

from __future__ import annotations

from collections.abc import Iterable

from tui.emulator.kubernetes.controller import Controller, Key, key_of, owner_keys
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.operators import store
from tui.emulator.kubernetes.operators.batch.plan import BatchJobPlan, plan_job
from tui.emulator.kubernetes.operators.batch.pods import FINALIZER, is_tracked
from tui.emulator.kubernetes.operators.metadata import is_controlled_by, name_of, namespace_of
from tui.emulator.kubernetes.operators.owned import Owned
from tui.emulator.kubernetes.resources import Obj
from tui.emulator.kubernetes.watching import WatchEvent

MANAGER = "kubernetes.io/job-controller"


class BatchJobController(Controller):
    """Reconciles Jobs and their pods."""

    name = "job-controller"

    def __init__(self, objects: Objects) -> None:
        self.jobs, self.pods = objects.resource("jobs", "batch"), objects.resource("pods")
        super().__init__(objects, (self.jobs, self.pods))
        self.owned = Owned(objects)

    def keys(self, event: WatchEvent) -> Iterable[Key]:
        if event.resource == self.jobs:
            left = self.owned.of(event.obj, self.pods) if event.type == "DELETED" else ()
            return [key_of(self.jobs, event.obj), *(key_of(self.pods, pod) for pod in left)]
        self.owned.see(event)
        orphan = is_tracked(event.obj) and self._job_of(event.obj) is None
        return [key_of(self.pods, event.obj)] if orphan else owner_keys(event.obj, self.jobs)

    def reconcile(self, key: Key) -> float | None:
        if key.resource == self.pods:
            pod = self.objects.find(*key)
            if pod is not None and self._job_of(pod) is None:
                self._untrack(pod)  # no Job is left to count it
            return None
        job = self.objects.find(*key)
        if job is None or job["spec"].get("managedBy") not in (None, MANAGER):
            return None
        plan = plan_job(job, self.owned.of(job, self.pods), self.objects.now())
        self._execute(job, plan)
        return plan.again

    def _job_of(self, pod: Obj) -> Obj | None:
        """Return the Job that created a pod, if it still exists."""
        for owner in owner_keys(pod, self.jobs):
            job = self.objects.find(*owner)
            if job is not None and is_controlled_by(pod, job):
                return job
        return None

    def _execute(self, job: Obj, plan: BatchJobPlan) -> None:
        store.set_status(self.objects, self.jobs, job, plan.status)
        for pod in plan.untrack:
            self._untrack(pod)
        for pod in plan.delete:
            if store.delete(self.objects, self.pods, namespace_of(pod), name_of(pod)):
                self.report(job, "SuccessfulDelete", f"Deleted pod: {name_of(pod)}")
        for pod in plan.create:
            created = self.objects.create(self.pods, pod)
            self.owned.add(self.pods, created)
            self.report(job, "SuccessfulCreate", f"Created pod: {name_of(created)}")
        for kind, reason, message in plan.events:
            self.report(job, reason, message, warning=kind == "Warning")
        if plan.delete_job:
            store.delete(self.objects, self.jobs, namespace_of(job), name_of(job), propagation="Foreground")

    def _untrack(self, pod: Obj) -> None:
        if is_tracked(pod):
            store.remove_finalizer(self.objects, self.pods, pod, FINALIZER)
