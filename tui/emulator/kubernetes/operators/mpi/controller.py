"""The MPI operator's controller."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from datetime import datetime

from tui.emulator.kubernetes.controller import Key
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.operators import conditions, store
from tui.emulator.kubernetes.operators.batch.pods import is_ready
from tui.emulator.kubernetes.operators.jobset.child_jobs import end_of
from tui.emulator.kubernetes.operators.metadata import (
    is_controlled_by,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    phase_of,
)
from tui.emulator.kubernetes.operators.mpi import objects as mpi_objects
from tui.emulator.kubernetes.operators.mpi.validation import validation_errors
from tui.emulator.kubernetes.operators.owned import JobController
from tui.emulator.kubernetes.operators.training.kinds import JOB_NAME, MPI, REPLICA_INDEX
from tui.emulator.kubernetes.operators.training.status import TrainingJobStatus
from tui.emulator.kubernetes.operators.trainjob.controller import ssh_secret
from tui.emulator.kubernetes.resources import Obj
from tui.emulator.kubernetes.watching import WatchEvent

GROUP, VERSION = "kubeflow.org", "v2beta1"


class MPIJobController(JobController):
    """Reconciles MPIJobs, their workers and launchers."""

    name = "mpi-job-controller"
    manager = mpi_objects.MANAGER

    def __init__(self, objects: Objects) -> None:
        self.launchers, self.pods = objects.resource("jobs", "batch"), objects.resource("pods")
        super().__init__(objects, objects.resource("mpijobs", GROUP, VERSION), self.launchers, self.pods)
        self.config_maps = objects.resource("configmaps")

    def keys(self, event: WatchEvent) -> Iterable[Key]:
        owners = super().keys(event)
        job = labels_of(event.obj).get(JOB_NAME)
        if event.resource == self.pods and job and not owners:
            # The launcher's pod belongs to the MPIJob's batch Job.
            return [Key(self.jobs, namespace_of(event.obj), job)]
        return owners

    def reconcile_job(self, job: Obj) -> float | None:
        filled = mpi_objects.with_defaults(job)
        errors = list(validation_errors(filled))
        if errors:
            text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
            message = f"Found validation errors: {text}"[:1024]
            self.report(job, "ValidationError", message, warning=True)
            return None
        _OneJob(self, filled).reconcile()
        return None


class _OneJob:
    """Reconciles one MPIJob."""

    def __init__(self, controller: MPIJobController, job: Obj) -> None:
        self.objects, self.report = controller.objects, controller.report
        self.mpijobs, self.launchers = controller.jobs, controller.launchers
        self.pods, self.config_maps = controller.pods, controller.config_maps
        self.job, self.namespace = job, namespace_of(job)
        self.now: datetime = self.objects.now()
        self.status = TrainingJobStatus(MPI, copy.deepcopy(job.get("status") or {}), self.now)
        self.suspended = bool(job["spec"]["runPolicy"].get("suspend"))
        self.owned = controller.owned
        self.workers = self.owned.of(job, self.pods)

    @property
    def where(self) -> str:
        """The job's namespace and name for messages."""
        return f"{self.namespace}/{name_of(self.job)}"

    def reconcile(self) -> None:
        status = self.status
        if not status.value.get("conditions"):
            self._put("Created", "MPIJobCreated", f"MPIJob {self.where} is created.")
        if status.finished and status.value.get("completionTime"):
            if self.job["spec"]["runPolicy"]["cleanPodPolicy"] in ("All", "Running"):
                self._delete_workers()
                status.value.setdefault("replicaStatuses", {})["Worker"] = {}
            self._store()
            return
        if not self.suspended:
            status.start()
        launcher = self._launcher()
        if launcher is None or not end_of(launcher):
            self._make_objects()
            launcher = self._launch(launcher)
        if self.suspended:
            self._delete_workers()
        self._report(launcher)
        self._store()

    def _launcher(self) -> Obj | None:
        name = mpi_objects.launcher_name(self.job)
        launcher = self.objects.find(self.launchers, self.namespace, name)
        return launcher if launcher is not None and is_controlled_by(launcher, self.job) else None

    def _make_objects(self) -> None:
        store.create(self.objects, mpi_objects.service(self.job))
        running = [name_of(pod) for pod in self.workers if phase_of(pod) == "Running"]
        config = mpi_objects.config_map(self.job, running)
        if not store.create(self.objects, config):
            store.change(
                self.objects, self.config_maps, config, lambda stored: stored.update(data=config["data"])
            )
        secret = f"{name_of(self.job)}-ssh"
        if self.objects.find(self.objects.resource("secrets"), self.namespace, secret) is None:
            store.create(self.objects, ssh_secret(self.job, secret))
        if not self.suspended:
            self._make_workers()

    def _make_workers(self) -> None:
        count = mpi_objects.workers(self.job)
        known = {name_of(pod) for pod in self.workers}
        for index in range(count):
            if mpi_objects.worker_name(self.job, index) not in known:
                pod = mpi_objects.worker_pod(self.job, index)
                if store.create(self.objects, pod):
                    self.owned.add(self.pods, pod)
        shift = bool(self.job["spec"].get("runLauncherAsWorker"))
        for pod in self.workers:
            if int(labels_of(pod).get(REPLICA_INDEX, "0")) - shift >= count and not is_terminating(pod):
                store.delete(self.objects, self.pods, self.namespace, name_of(pod))

    def _launch(self, launcher: Obj | None) -> Obj | None:
        """Create the launcher's Job when allowed; suspend and resume it with the MPIJob."""
        if launcher is None:
            ready = sum(is_ready(pod) for pod in self.workers) == mpi_objects.workers(self.job)
            if self.job["spec"]["launcherCreationPolicy"] == "AtStartup" or ready:
                store.create(self.objects, mpi_objects.launcher_job(self.job))
                return self._launcher()
            return None
        if bool(launcher["spec"].get("suspend")) != self.suspended:
            spec = copy.deepcopy(launcher["spec"])
            spec["suspend"] = self.suspended
            if not self.suspended:
                # Copy the fields that a queue has set in the MPIJob in the meantime.
                template = mpi_objects.launcher_template(self.job)["spec"]
                for field in ("nodeSelector", "tolerations", "schedulingGates"):
                    if field in template:
                        spec["template"]["spec"][field] = template[field]
            store.set_spec(self.objects, self.launchers, launcher, spec)
        return launcher

    def _delete_workers(self) -> None:
        """Delete the workers. cleanPodPolicy Running preserves ended workers."""
        keeps = self.job["spec"]["runPolicy"]["cleanPodPolicy"] == "Running" and not self.suspended
        for pod in self.workers:
            ended = phase_of(pod) not in ("Running", "Pending")
            if not is_terminating(pod) and not (keeps and ended):
                store.delete(self.objects, self.pods, self.namespace, name_of(pod))

    def _report(self, launcher: Obj | None) -> None:
        self._report_suspension()
        counts: dict[str, Obj] = self.status.value.setdefault("replicaStatuses", {})
        launched = 0
        if launcher is not None:
            pods = self.owned.of(launcher, self.pods)
            launched = sum(phase_of(pod) == "Running" for pod in pods)
            counts["Launcher"] = _only(failed=(launcher.get("status") or {}).get("failed"))
            self._report_launcher(launcher, pods, counts["Launcher"], launched)
        phases = [phase_of(pod) for pod in self.workers]
        running = phases.count("Running")
        counts["Worker"] = _only(
            active=running, succeeded=phases.count("Succeeded"), failed=phases.count("Failed")
        )
        evicted = sum((pod.get("status") or {}).get("reason") == "Evicted" for pod in self.workers)
        if evicted:
            message = f"{evicted}/{len(self.workers)} workers are evicted"
            self._put("Failed", "MPIJobEvicted", message, warn=True)
        if self.suspended:
            message = f"MPIJob {self.where} is suspended."
            if self.status.has("Running"):
                self.status.put("Running", "MPIJobSuspended", message, status="False")
        elif launched and running == mpi_objects.workers(self.job) and not self.status.finished:
            self._put("Running", "MPIJobRunning", f"MPIJob {self.where} is running.")

    def _report_suspension(self) -> None:
        if self.suspended:
            self._put("Suspended", "MPIJobSuspended", "MPIJob suspended")
        elif self.status.has("Suspended"):
            self._put("Suspended", "MPIJobResumed", "MPIJob resumed", value="False")
            self.status.start(again=True)

    def _report_launcher(self, launcher: Obj, pods: list[Obj], counts: Obj, launched: int) -> None:
        end = end_of(launcher)
        if end == "Complete":
            counts["succeeded"] = 1
            self.status.complete()
            self._put("Succeeded", "MPIJobSucceeded", f"MPIJob {self.where} successfully completed.")
        elif end == "Failed":
            failed = conditions.find(launcher["status"], "Failed") or {}
            reason = failed.get("reason") or "MPIJobFailed"
            message = failed.get("message") or f"MPIJob {self.where} has failed"
            last = max(
                (pod for pod in pods if phase_of(pod) == "Failed"),
                key=lambda pod: str(pod["metadata"]["creationTimestamp"]),
                default=None,
            )
            if reason == "BackoffLimitExceeded" and last is not None:
                own = last.get("status") or {}
                reason += f"/{own.get('reason', '')}"
                message += f": {own.get('message', '')}"
            self.status.complete()
            self._put("Failed", reason, message, warn=True)
        elif launched:
            counts["active"] = launched

    def _put(
        self, condition: str, reason: str, message: str, *, value: str = "True", warn: bool = False
    ) -> None:
        if self.status.put(condition, reason, message, status=value):
            self.report(self.job, reason, message, warning=warn)

    def _store(self) -> None:
        store.set_status(self.objects, self.mpijobs, self.job, self.status.value)


def _only(**counts: int | None) -> Obj:
    return {name: count for name, count in counts.items() if count}
