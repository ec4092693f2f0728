"""The JobSet controller."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tui.emulator.kubernetes.controller import Controller, Key, key_of, owner_keys
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.operators import store
from tui.emulator.kubernetes.operators.jobset.child_jobs import (
    MANAGER,
    claims,
    headless_service,
    subdomain,
    with_defaults,
)
from tui.emulator.kubernetes.operators.jobset.plan import JobSetPlan, plan_jobset
from tui.emulator.kubernetes.operators.metadata import is_terminating, name_of, namespace_of
from tui.emulator.kubernetes.operators.owned import Owned
from tui.emulator.kubernetes.resources import ApiResource, Obj
from tui.emulator.kubernetes.watching import WatchEvent


class JobSetController(Controller):
    """Reconciles JobSets and their Jobs."""

    def __init__(self, objects: Objects) -> None:
        super().__init__(objects)
        self.jobsets = objects.resource("jobsets", "jobset.x-k8s.io")
        self.jobs = objects.resource("jobs", "batch")
        self.services = objects.resource("services")
        self.owned = Owned(objects)

    @property
    def name(self) -> str:
        return "jobset-controller"

    def watched(self) -> Collection[ApiResource]:
        return (self.jobsets, self.jobs, self.services)

    def keys(self, event: WatchEvent) -> Iterable[Key]:
        if event.resource == self.jobsets:
            return (key_of(self.jobsets, event.obj),)
        self.owned.see(event)
        return owner_keys(event.obj, self.jobsets)

    def reconcile(self, key: Key) -> float | None:
        stored = store.find(self.objects, self.jobsets, key.namespace, key.name)
        if stored is None or is_terminating(stored):
            return None
        if stored["spec"].get("managedBy") not in (None, MANAGER):
            return None
        jobset = with_defaults(stored)
        jobs = self.owned.of(jobset, self.jobs)
        plan = plan_jobset(jobset, jobs, self.objects.now())
        self._execute(jobset, plan)
        return plan.again

    def _execute(self, jobset: Obj, plan: JobSetPlan) -> None:
        namespace = namespace_of(jobset)
        store.set_status(self.objects, self.jobsets, jobset, plan.status)
        for kind, reason, message in plan.events:
            self.report(jobset, reason, message, warning=kind == "Warning", action="Reconciling")
        for job in plan.delete:
            if not is_terminating(job):
                store.delete(self.objects, self.jobs, namespace, name_of(job), propagation="Foreground")
        if plan.needs_service:
            if store.find(self.objects, self.services, namespace, subdomain(jobset)) is None:
                store.create(self.objects, headless_service(jobset))
            for claim in claims(jobset):
                store.create(self.objects, claim)
        for job in plan.create:
            if store.create(self.objects, job):
                self.owned.add(self.jobs, job)
        for job, spec in plan.respecify:
            store.set_spec(self.objects, self.jobs, job, spec)
        if plan.delete_jobset:
            store.delete(self.objects, self.jobsets, namespace, name_of(jobset), propagation="Foreground")
