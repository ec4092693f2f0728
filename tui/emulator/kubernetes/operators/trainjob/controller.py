"""The TrainJob controller of Kubeflow Trainer v2."""

from __future__ import annotations

import base64
import copy
from datetime import datetime

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.operators import conditions, store
from tui.emulator.kubernetes.operators.metadata import (
    is_controlled_by,
    name_of,
    namespace_of,
    owned,
    seconds_until,
)
from tui.emulator.kubernetes.operators.owned import JobController
from tui.emulator.kubernetes.operators.trainjob.build import build_jobset, build_pod_group
from tui.emulator.kubernetes.operators.trainjob.policies import KEY_SUFFIX, hostfile
from tui.emulator.kubernetes.operators.trainjob.runtime import GROUP, Runtime, find_runtime, runtime_reference
from tui.emulator.kubernetes.resources import Obj
from tui.emulator.kubernetes.times import rfc3339

MANAGER = "trainer.kubeflow.org/trainjob-controller"
SNAPSHOT_SUFFIX = "-runtime-snapshot"
DEADLINE = "DeadlineExceeded"


class TrainJobController(JobController):
    """Reconciles TrainJobs and their JobSets."""

    name = "trainer-controller-manager"
    manager = MANAGER

    def __init__(self, objects: Objects) -> None:
        self.jobsets = objects.resource("jobsets", "jobset.x-k8s.io")
        super().__init__(objects, objects.resource("trainjobs", GROUP), self.jobsets)
        self.config_maps = objects.resource("configmaps")
        self.secrets = objects.resource("secrets")

    def reconcile_job(self, job: Obj) -> float | None:
        status: Obj = copy.deepcopy(job.get("status") or {})
        failed = conditions.find(status, "Failed")
        if failed is not None and failed["reason"] != DEADLINE:
            # The reason may be outdated after a spec change; it is set again below if not.
            status["conditions"].remove(failed)
        if not _is_finished(job.get("status") or {}):
            self._build(job)
        now = self.objects.now()
        _set_suspended(job, status, now)
        jobset = self.objects.find(self.jobsets, namespace_of(job), name_of(job))
        if jobset is not None and is_controlled_by(jobset, job):
            _take_over(jobset, status, now)
        elif failed is not None and failed["reason"] != DEADLINE:
            status.setdefault("conditions", []).append(failed)  # the JobSet's time to live has passed
        again = self._watch_deadline(job, status, now)
        store.set_status(self.objects, self.jobs, job, status)
        return again

    def _build(self, trainjob: Obj) -> None:
        """Create the TrainJob's objects, or update them while it is suspended."""
        template = self._runtime(trainjob)
        if template is None:
            kind, name = runtime_reference(trainjob)
            message = f"TrainJob resources reconciliation failed: {kind} {name} not found"
            reason = "TrainJobResourcesCreationFailed"
            self.report(trainjob, reason, message, warning=True, action="Reconciling")
            return
        namespace, name = namespace_of(trainjob), name_of(trainjob)
        old = self.objects.find(self.jobsets, namespace, name)
        if old is not None and not (trainjob["spec"].get("suspend") or old["spec"].get("suspend")):
            return
        runtime = Runtime(trainjob, template)
        jobset = build_jobset(trainjob, runtime)
        for obj in (hostfile(trainjob, runtime), build_pod_group(trainjob, runtime)):
            if obj is not None:
                self._apply(obj)
        if "mpi" in runtime.policy:
            self._make_key(trainjob)
        self._apply(jobset)

    def _apply(self, obj: Obj) -> None:
        if store.create(self.objects, obj):
            return
        group, _, version = obj["apiVersion"].rpartition("/")

        def edit(stored: Obj) -> None:
            stored.update({field: obj[field] for field in ("spec", "data") if field in obj})

        store.change(self.objects, self.objects.resource(obj["kind"], group, version), obj, edit)

    def _runtime(self, trainjob: Obj) -> Obj | None:
        """Return the runtime as of the TrainJob's creation; later changes do not affect the job."""
        namespace, snapshot = namespace_of(trainjob), f"{name_of(trainjob)}{SNAPSHOT_SUFFIX}"
        kept = self.objects.find(self.config_maps, namespace, snapshot)
        if kept is not None and is_controlled_by(kept, trainjob):
            snapshotted: Obj = yaml.safe_load(kept["data"]["runtime"])
            return snapshotted
        runtime = find_runtime(self.objects, trainjob)
        if runtime is not None:
            data = {"runtime": yaml.safe_dump(runtime)}
            store.create(self.objects, owned(trainjob, "v1", "ConfigMap", snapshot, data=data))
        return runtime

    def _make_key(self, trainjob: Obj) -> None:
        """Create the SSH key of a TrainJob under MPI. The emulator does not use the key, but the pods mount
        it."""
        namespace, name = namespace_of(trainjob), f"{name_of(trainjob)}{KEY_SUFFIX}"
        if self.objects.find(self.secrets, namespace, name) is None:
            store.create(self.objects, ssh_secret(trainjob, name))

    def _watch_deadline(self, trainjob: Obj, status: Obj, now: datetime) -> float | None:
        deadline = trainjob["spec"].get("activeDeadlineSeconds")
        if not deadline or _is_finished(status) or trainjob["spec"].get("suspend"):
            return None
        resumed = conditions.find(status, "Suspended")
        start = resumed["lastTransitionTime"] if resumed else trainjob["metadata"]["creationTimestamp"]
        left = seconds_until(start, int(deadline), now)
        if left > 0:
            return left
        message = "TrainJob exceeded its active deadline"
        conditions.put(status, "Failed", DEADLINE, message, rfc3339(now))
        store.delete(self.objects, self.jobsets, namespace_of(trainjob), name_of(trainjob))
        return None


def ssh_secret(owner: Obj, name: str) -> Obj:
    """Return a Secret with a new SSH key pair."""
    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    data = {
        "ssh-privatekey": base64.b64encode(private).decode(),
        "ssh-publickey": base64.b64encode(public + b"\n").decode(),
    }
    kind = "kubernetes.io/ssh-auth"
    return owned(owner, "v1", "Secret", name, type=kind, immutable=True, data=data)


def _is_finished(status: Obj) -> bool:
    return conditions.is_true(status, "Complete") or conditions.is_true(status, "Failed")


def _set_suspended(trainjob: Obj, status: Obj, now: datetime) -> None:
    if trainjob["spec"].get("suspend"):
        conditions.put(status, "Suspended", "Suspended", "TrainJob is suspended", rfc3339(now))
    elif conditions.is_true(status, "Suspended"):
        conditions.put(status, "Suspended", "Resumed", "TrainJob is resumed", rfc3339(now), value="False")


def _take_over(jobset: Obj, status: Obj, now: datetime) -> None:
    """Copy the JobSet's end and counts."""
    own = jobset.get("status") or {}
    for theirs, ours in (("Completed", "Complete"), ("Failed", "Failed")):
        ended = conditions.find(own, theirs)
        if ended is not None and ended["status"] == "True" and not conditions.is_true(status, ours):
            conditions.put(status, ours, ended["reason"], ended["message"], ended["lastTransitionTime"])
    counts = own.get("replicatedJobsStatus") or []
    if counts:
        fields = ("name", "ready", "succeeded", "failed", "active", "suspended")
        status["jobsStatus"] = [{field: count[field] for field in fields} for count in counts]
