"""The Training Operator's controller: reads a job and its pods, plans, and applies the plan."""

from __future__ import annotations

from tui.emulator.kubernetes.errors import ApiError
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.operators import store
from tui.emulator.kubernetes.operators.metadata import is_controlled_by, name_of, namespace_of
from tui.emulator.kubernetes.operators.owned import JobController
from tui.emulator.kubernetes.operators.training.gang import join
from tui.emulator.kubernetes.operators.training.kinds import (
    OPERATOR,
    PYTORCH,
    TENSORFLOW,
    JobKind,
    with_defaults,
)
from tui.emulator.kubernetes.operators.training.plan import (
    Step,
    TrainingJobObjects,
    TrainingJobPlan,
    plan_job,
)
from tui.emulator.kubernetes.operators.training.replicas import (
    conclude_pytorch,
    conclude_tensorflow,
    reconcile_replicas,
)
from tui.emulator.kubernetes.resources import Obj

GROUP = "kubeflow.org"


CONCLUSIONS: dict[str, Step] = {PYTORCH.kind: conclude_pytorch, TENSORFLOW.kind: conclude_tensorflow}
"""The step that derives the state of a job from its replicas, by kind."""


class TrainingController(JobController):
    """Reconciles the jobs of one kind."""

    manager = OPERATOR

    def __init__(self, objects: Objects, kind: JobKind) -> None:
        self.kind, self.name = kind, kind.operator
        self.pods, self.services = objects.resource("pods"), objects.resource("services")
        super().__init__(objects, objects.resource(kind.plural, GROUP, "v1"), self.pods, self.services)
        self.pod_groups = [resource for resource in objects.resources if resource.kind == "PodGroup"]

    def reconcile_job(self, job: Obj) -> float | None:
        seen = TrainingJobObjects(
            kind=self.kind,
            job=with_defaults(self.kind, job),
            pods=self.owned.of(job, self.pods),
            services=self.owned.of(job, self.services),
            now=self.objects.now(),
        )
        plan = plan_job(seen, reconcile_replicas, CONCLUSIONS[self.kind.kind])
        self._execute(job, plan)
        return plan.again

    def _execute(self, job: Obj, plan: TrainingJobPlan) -> None:
        for event in plan.events:
            self.report(job, event.reason, event.message, warning=event.warning)
        self._keep_pod_group(job, plan)
        for obj in plan.create:
            self._create(job, obj)
        namespace = namespace_of(job)
        for name in plan.delete_pods:
            if store.delete(self.objects, self.pods, namespace, name):
                self.report(job, "SuccessfulDeletePod", f"Deleted pod: {name}")
        for name in plan.delete_services:
            if store.delete(self.objects, self.services, namespace, name):
                self.report(job, "SuccessfulDeleteService", f"Deleted service: {name}")
        store.set_status(self.objects, self.jobs, job, plan.status.value)
        if plan.delete_job and store.delete(self.objects, self.jobs, namespace, name_of(job)):
            self.report(job, "SuccessfulDeletePod", f"Deleted job: {name_of(job)}")

    def _keep_pod_group(self, job: Obj, plan: TrainingJobPlan) -> None:
        """Create, update or delete the job's PodGroup, and add the new pods to it."""
        if plan.pod_group is not None:
            pod_group = plan.pod_group
            for obj in plan.create:
                if obj["kind"] == "Pod":
                    join(obj, pod_group)
            if not store.create(self.objects, pod_group):
                group, _, version = pod_group["apiVersion"].rpartition("/")
                resource = self.objects.resource("PodGroup", group, version)
                store.set_spec(self.objects, resource, pod_group, pod_group["spec"])
        if plan.delete_pod_group:
            for resource in self.pod_groups:
                present = self.objects.find(resource, namespace_of(job), name_of(job))
                if present is not None and is_controlled_by(present, job):
                    self.report(job, "JobTerminated", "Job has been terminated. Deleting PodGroup")
                    store.delete(self.objects, resource, namespace_of(job), name_of(job))
                    self.report(job, "SuccessfulDeletePodGroup", f"Deleted PodGroup: {name_of(job)}")

    def _create(self, job: Obj, obj: Obj) -> None:
        kind = obj["kind"]
        try:
            created = store.create(self.objects, obj)
        except ApiError as error:
            # Retried later; until then, create nothing else of the job.
            if kind in ("Pod", "Service"):
                self.report(job, f"FailedCreate{kind}", f"Error creating: {error}", warning=True)
            raise
        if created and kind in ("Pod", "Service"):
            self.owned.add(self.pods if kind == "Pod" else self.services, obj)
            self.report(job, f"SuccessfulCreate{kind}", f"Created {kind.lower()}: {name_of(obj)}")
