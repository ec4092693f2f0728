"""Kueue's handling of each job kind: pod sets, state, suspension."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.operators import conditions
from tui.emulator.kubernetes.operators.jobset.child_jobs import replicated_jobs
from tui.emulator.kubernetes.operators.metadata import name_of, namespace_of
from tui.emulator.kubernetes.operators.training.kinds import MPI, PYTORCH, TENSORFLOW, JobKind, with_defaults
from tui.emulator.kubernetes.operators.trainjob.build import build_jobset
from tui.emulator.kubernetes.operators.trainjob.runtime import Runtime, find_runtime
from tui.emulator.kubernetes.resources import Obj

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
RUNTIME_PATCH_MANAGER = "kueue.x-k8s.io/manager"


@dataclass(frozen=True)
class PodSet:
    """A set of identical pods of a job. The template is a part of the object, not a copy."""

    name: str
    count: int
    template: Obj


@dataclass(frozen=True)
class PodSetInfo:
    """Node selector and tolerations that an admission adds to a pod set."""

    name: str
    node_selector: dict[str, str]
    tolerations: list[Obj]


class QueuedKind(ABC):
    """Kueue's handling of one kind of job."""

    plural: str
    group: str
    version: str
    succeeded = "Complete"
    """Condition of a job that has succeeded."""

    def is_suspended(self, job: Obj) -> bool:
        """Return whether the job is suspended."""
        return bool(job["spec"].get("suspend"))

    def suspend(self, job: Obj, on: bool) -> None:
        """Suspend or resume the job in place."""
        job["spec"]["suspend"] = on

    @abstractmethod
    def pod_sets(self, job: Obj) -> list[PodSet]:
        """Return the pod sets in the workload's order."""

    def inject(self, job: Obj, infos: list[PodSetInfo]) -> None:
        """Add the admission's settings to the templates in place."""
        for pods, info in zip(self.pod_sets(job), infos, strict=True):
            spec = pods.template.setdefault("spec", {})
            if info.node_selector:
                spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **info.node_selector}
            known = spec.get("tolerations") or []
            added = [toleration for toleration in info.tolerations if toleration not in known]
            if added:
                spec["tolerations"] = [*known, *added]

    def restore(self, job: Obj, originals: list[Obj]) -> None:
        """Undo the admission's settings in place. `originals` are the workload's templates."""
        for pods, original in zip(self.pod_sets(job), originals, strict=False):
            spec, old = pods.template.setdefault("spec", {}), original.get("spec") or {}
            for field in ("nodeSelector", "tolerations"):
                if field in old:
                    spec[field] = old[field]
                else:
                    spec.pop(field, None)

    def finished(self, job: Obj) -> tuple[str, bool] | None:
        """Return the message of the job's end and whether it succeeded, or None if there is none."""
        status = job.get("status") or {}
        for condition in (self.succeeded, "Failed"):
            if conditions.is_true(status, condition):
                entry = conditions.find(status, condition) or {}
                return str(entry.get("message", "")), condition == self.succeeded
        return None

    @abstractmethod
    def is_active(self, job: Obj) -> bool:
        """Return whether pods of the job may still run."""

    @abstractmethod
    def pods_ready(self, job: Obj) -> bool:
        """Return whether all pods are ready."""

    def priority_class(self, job: Obj) -> str:
        """Return the PriorityClass of the job's pods."""
        names = [(pods.template.get("spec") or {}).get("priorityClassName") for pods in self.pod_sets(job)]
        return next((str(name) for name in names if name), "")


class TrainingOperatorJobs(QueuedKind):
    """PyTorchJob, TFJob and MPIJob, which are suspended by their run policy."""

    group, succeeded = "kubeflow.org", "Succeeded"

    def __init__(self, kind: JobKind, order: tuple[str, ...], version: str = "v1") -> None:
        self.kind, self.order = kind, order
        self.plural, self.version = kind.plural, version

    def is_suspended(self, job: Obj) -> bool:
        return bool((job["spec"].get("runPolicy") or {}).get("suspend"))

    def suspend(self, job: Obj, on: bool) -> None:
        job["spec"].setdefault("runPolicy", {})["suspend"] = on

    def pod_sets(self, job: Obj) -> list[PodSet]:
        counts = self.kind.specs(with_defaults(self.kind, job))
        declared = {
            name.lower(): spec for name, spec in (job["spec"].get(self.kind.replica_specs) or {}).items()
        }
        return [
            PodSet(name.lower(), int(counts[name]["replicas"]), declared[name.lower()]["template"])
            for name in self.order
            if name in counts
        ]

    def is_active(self, job: Obj) -> bool:
        statuses = (job.get("status") or {}).get("replicaStatuses") or {}
        return any(counts.get("active") for counts in statuses.values())

    def pods_ready(self, job: Obj) -> bool:
        return conditions.is_true(job.get("status") or {}, "Running")

    def priority_class(self, job: Obj) -> str:
        policy = (job["spec"].get("runPolicy") or {}).get("schedulingPolicy") or {}
        return str(policy.get("priorityClass") or "") or super().priority_class(job)


class BatchJobs(QueuedKind):
    """Jobs of batch/v1."""

    plural, group, version = "jobs", "batch", "v1"

    def pod_sets(self, job: Obj) -> list[PodSet]:
        return [PodSet("main", _pods_of(job["spec"]), job["spec"]["template"])]

    def is_active(self, job: Obj) -> bool:
        return bool((job.get("status") or {}).get("active"))

    def pods_ready(self, job: Obj) -> bool:
        status = job.get("status") or {}
        return int(status.get("succeeded") or 0) + int(status.get("ready") or 0) >= _pods_of(job["spec"])


class JobSets(QueuedKind):
    """JobSets."""

    plural, group, version = "jobsets", "jobset.x-k8s.io", "v1alpha2"
    succeeded = "Completed"

    def pod_sets(self, job: Obj) -> list[PodSet]:
        return [
            PodSet(
                replicated["name"],
                int(replicated.get("replicas") or 1) * _pods_of(replicated["template"]["spec"]),
                replicated["template"]["spec"]["template"],
            )
            for replicated in replicated_jobs(job)
        ]

    def is_active(self, job: Obj) -> bool:
        return any(counts["active"] for counts in (job.get("status") or {}).get("replicatedJobsStatus") or ())

    def pods_ready(self, job: Obj) -> bool:
        total = sum(int(replicated["replicas"]) for replicated in replicated_jobs(job))
        counts = (job.get("status") or {}).get("replicatedJobsStatus") or ()
        return total == sum(int(count["ready"]) + int(count["succeeded"]) for count in counts)


def _pods_of(spec: Obj) -> int:
    parallelism = 1 if spec.get("parallelism") is None else int(spec["parallelism"])
    return parallelism if spec.get("completions") is None else min(parallelism, int(spec["completions"]))


class TrainJobs(QueuedKind):
    """TrainJobs: their JobSet has the pod sets, and an admission patches the runtime."""

    plural, group, version = "trainjobs", "trainer.kubeflow.org", "v1alpha1"

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def pod_sets(self, job: Obj) -> list[PodSet]:
        runtime = find_runtime(self._objects, job)
        if runtime is None:
            return []
        plain = {**job, "spec": {**job["spec"], "runtimePatches": _others(job)}}
        return JobSets().pod_sets(build_jobset(plain, Runtime(plain, runtime)))

    def inject(self, job: Obj, infos: list[PodSetInfo]) -> None:
        patches = [
            {
                "name": info.name,
                "template": {
                    "spec": {
                        "template": {
                            "spec": {"nodeSelector": info.node_selector, "tolerations": info.tolerations}
                        }
                    }
                },
            }
            for info in infos
        ]
        spec = {"template": {"spec": {"replicatedJobs": patches}}}
        own = {"manager": RUNTIME_PATCH_MANAGER, "trainingRuntimeSpec": spec}
        job["spec"]["runtimePatches"] = [*_others(job), own]

    def restore(self, job: Obj, originals: list[Obj]) -> None:
        left = _others(job)
        if left:
            job["spec"]["runtimePatches"] = left
        else:
            job["spec"].pop("runtimePatches", None)

    def is_active(self, job: Obj) -> bool:
        return any(counts["active"] for counts in (job.get("status") or {}).get("jobsStatus") or ())

    def pods_ready(self, job: Obj) -> bool:
        jobset = self._objects.find(
            self._objects.resource("jobsets", JobSets.group),
            namespace_of(job),
            name_of(job),
        )
        return jobset is not None and JobSets().pods_ready(jobset)


def _others(job: Obj) -> list[Obj]:
    """Return the runtime patches of other managers."""
    patches: list[Obj] = job["spec"].get("runtimePatches") or []
    return [patch for patch in patches if patch.get("manager") != RUNTIME_PATCH_MANAGER]


def queued_kinds(objects: Objects) -> list[QueuedKind]:
    """Return all kinds that Kueue handles."""
    return [
        TrainingOperatorJobs(PYTORCH, ("Master", "Worker")),
        TrainingOperatorJobs(TENSORFLOW, ("Chief", "Master", "PS", "Worker", "Evaluator")),
        TrainingOperatorJobs(MPI, ("Launcher", "Worker"), "v2beta1"),
        BatchJobs(),
        JobSets(),
        TrainJobs(objects),
    ]
