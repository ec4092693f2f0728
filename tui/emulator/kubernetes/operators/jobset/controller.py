"""The JobSet controller."""

from __future__ import annotations

from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.operators import store
from tui.emulator.kubernetes.operators.jobset.child_jobs import (
    MANAGER,
    claims,
    headless_service,
    subdomain,
)
from tui.emulator.kubernetes.operators.jobset.plan import JobSetPlan, plan_jobset
from tui.emulator.kubernetes.operators.metadata import is_terminating, name_of, namespace_of
from tui.emulator.kubernetes.operators.owned import JobController
from tui.emulator.kubernetes.resources import Obj


class JobSetController(JobController):
    """Reconciles JobSets and their Jobs."""

    name = "jobset-controller"
    refused = "JobCreationFailed"
    manager = MANAGER

    def __init__(self, objects: Objects) -> None:
        self.child_jobs, self.services = objects.resource("jobs", "batch"), objects.resource("services")
        super().__init__(
            objects, objects.resource("jobsets", "jobset.x-k8s.io"), self.child_jobs, self.services
        )

    def reconcile_job(self, job: Obj) -> float | None:
        plan = plan_jobset(job, self.owned.of(job, self.child_jobs), self.objects.now())
        self._execute(job, plan)
        return plan.again

    def _execute(self, jobset: Obj, plan: JobSetPlan) -> None:
        namespace = namespace_of(jobset)
        store.set_status(self.objects, self.jobs, jobset, plan.status)
        for kind, reason, message in plan.events:
            self.report(jobset, reason, message, warning=kind == "Warning", action="Reconciling")
        for job in plan.delete:
            if not is_terminating(job):
                store.delete(self.objects, self.child_jobs, namespace, name_of(job), propagation="Foreground")
        if plan.needs_service and self.objects.find(self.services, namespace, subdomain(jobset)) is None:
            store.create(self.objects, headless_service(jobset))
        if plan.starts:
            for _, _, claim in claims(jobset):
                store.create(self.objects, claim)
        for job in plan.create:
            if store.create(self.objects, job):
                self.owned.add(self.child_jobs, job)
        for job, spec in plan.respecify:
            store.set_spec(self.objects, self.child_jobs, job, spec)
        if plan.delete_jobset:
            store.delete(self.objects, self.jobs, namespace, name_of(jobset), propagation="Foreground")
