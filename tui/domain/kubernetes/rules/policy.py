"""Rules about restarts, retries, clean-up, suspension and queues."""

from __future__ import annotations

from collections.abc import Iterator

from tui.domain.document.document_edit import REMOVED, Edit
from tui.domain.document.source import ProblemSeverity
from tui.domain.kubernetes.rules.base import (
    BATCH_JOB,
    KUEUE,
    LOST_PODS,
    MPI_VALIDATION,
    SPOT_VMS,
    V1_TYPES,
    ManifestCase,
    ManifestRule,
)
from tui.domain.kubernetes.workloads import QUEUE, Path, at, elements, fields, is_spot, whole
from tui.domain.spec.findings import Finding

_POLICIES = {
    "pytorch_job": ("Always", "OnFailure", "Never", "ExitCode"),
    "tf_job": ("Always", "OnFailure", "Never", "ExitCode"),
    "mpi_job": ("OnFailure", "Never"),
    "batch_job": ("OnFailure", "Never"),
    "job_set": ("OnFailure", "Never"),
}
_CHECKPOINT_FLAGS = ("--checkpoint-dir", "--upload-dir", "--output", "--output_dir", "--save", "--ckpt")
_CHECKPOINT_VARIABLES = ("AIP_CHECKPOINT_DIR", "CHECKPOINT_DIR")


def suspend_path(case: ManifestCase) -> Path:
    """Return the path of the job's suspend field."""
    v1 = case.workload is not None and case.workload.operator_v1
    return ("spec", "runPolicy", "suspend") if v1 else ("spec", "suspend")


def backoff_path(case: ManifestCase) -> Path:
    """Return the path of the job's retry limit."""
    kind = case.kind
    if kind == "job_set":
        return ("spec", "failurePolicy", "maxRestarts")
    return ("spec", "backoffLimit") if kind == "batch_job" else ("spec", "runPolicy", "backoffLimit")


def kept_pods(case: ManifestCase) -> Iterator[Finding]:
    path = ("spec", "runPolicy", "cleanPodPolicy")
    limit = whole(at(case.job, "spec", "runPolicy", "backoffLimit"))
    if at(case.job, *path) == "None" and limit is not None and case.workload and case.workload.operator_v1:
        sentence = (
            f"once a job has failed more than {limit} times (backoffLimit), Training Operator deletes its "
            "pods and their logs anyway."
        )
        fix = (
            "Remove backoffLimit, with restartPolicy Never if a failure should end the job; or read the "
            "logs in Cloud Logging afterwards."
        )
        yield Finding(path, sentence, fix)


def lost_logs(case: ManifestCase) -> Iterator[Finding]:
    path = ("spec", "runPolicy", "cleanPodPolicy")
    if at(case.job, *path) == "All":
        sentence = "every pod is deleted with its log when the job ends."
        yield Finding(
            path,
            sentence,
            "Write None to keep all pods and their logs, or Running to delete only running pods.",
        )


def restart_policies(case: ManifestCase) -> Iterator[Finding]:
    known = _POLICIES.get(case.kind, ())
    for group in case.groups:
        if not known or not group.restart or group.restart in known or "${" in group.restart:
            continue
        v1 = case.workload is not None and case.workload.operator_v1
        path: Path = (*group.path, "restartPolicy") if v1 else (*group.pod_path, "restartPolicy")
        source = MPI_VALIDATION if case.workload and case.workload.key == "mpi_job" else ""
        source = source or (V1_TYPES if v1 else BATCH_JOB)
        yield Finding(
            path, f"{group.restart} must be one of {', '.join(known)}.", f"Write {known[0]}.", source=source
        )


def no_policy(case: ManifestCase) -> Iterator[Finding]:
    if case.kind not in {"batch_job", "job_set"}:
        return
    for group in case.groups:
        if not group.restart:
            path = (*group.pod_path, "restartPolicy")
            edits = (Edit(path, "Never"),)
            yield Finding(
                path,
                "the pods need a restartPolicy: the default, Always, is not allowed in a Job.",
                "Write Never or OnFailure.",
                edits,
            )


def spot_restart(case: ManifestCase) -> Iterator[Finding]:
    """Check that pods on Spot nodes restart after a preemption."""
    if case.workload is None:
        return
    spot = [group for group in case.groups if is_spot(group)]
    for group in spot:
        if case.workload.operator_v1 and group.restart == "Never":
            path = (*group.path, "restartPolicy")
            sentence = (
                f"{group.role} runs on Spot nodes and never restarts: the first preemption ends the job."
            )
            fix = "Write OnFailure, or ExitCode if exit codes 128 to 255 mean a retry."
            yield Finding(path, sentence, fix, (Edit(path, "OnFailure"),))
    path = backoff_path(case)
    if spot and whole(at(case.job, *path)) == 0:
        sentence = f"{path[-1]} is 0 and the job runs on Spot nodes: the first preemption ends it."
        yield Finding(
            path,
            sentence,
            "Allow as many restarts as preemptions are likely, for example 20.",
            (Edit(path, 20),),
        )


def spot_checkpoint(case: ManifestCase) -> Iterator[Finding]:
    for group in case.groups:
        if not is_spot(group):
            continue
        words = [str(word) for key in ("command", "args") for word in elements(group.container, key)]
        names = [str(fields(variable).get("name")) for variable in elements(group.container, "env")]
        kept = {
            str(fields(volume).get("name"))
            for volume in elements(group.pod, "volumes")
            if {"persistentVolumeClaim", "csi", "nfs"} & set(fields(volume))
        }
        mounted = any(
            fields(mount).get("name") in kept for mount in elements(group.container, "volumeMounts")
        )
        flagged = any(
            word.startswith(_CHECKPOINT_FLAGS) or "gs://" in word or "/gcs/" in word for word in words
        )
        if not (mounted or flagged or set(names) & set(_CHECKPOINT_VARIABLES)):
            sentence = (
                f"{group.role} runs on Spot nodes, but has no storage in which checkpoints outlive the pod."
            )
            fix = "Set AIP_CHECKPOINT_DIR to a gs:// folder, or mount a volume claim."
            yield Finding((*group.container_path, "env"), sentence, fix)
            return


def suspended(case: ManifestCase) -> Iterator[Finding]:
    path = suspend_path(case)
    if at(case.job, *path) is True and not fields(case.job, "metadata", "labels").get(QUEUE):
        sentence = "the job is created suspended, and no queue will start it."
        fix = f"Remove the field, resume the job manually, or name a queue with the label {QUEUE}."
        yield Finding(path, sentence, fix, (Edit(path, REMOVED),))


def queue_on_pods(case: ManifestCase) -> Iterator[Finding]:
    if case.workload is None or fields(case.job, "metadata", "labels").get(QUEUE):
        return
    for group in case.groups:
        if fields(group.metadata, "labels").get(QUEUE):
            path = (*group.template, "metadata", "labels", QUEUE)
            sentence = (
                f"the pods of {group.role} have the queue's label: Kueue would queue each pod separately."
            )
            queue = fields(group.metadata, "labels")[QUEUE]
            edits = (Edit(("metadata", "labels", QUEUE), queue), Edit(path, REMOVED))
            yield Finding(path, sentence, "Move the label to the job.", edits)


def two_queues(case: ManifestCase) -> Iterator[Finding]:
    path = ("spec", "runPolicy", "schedulingPolicy", "queue")
    if fields(case.job, "metadata", "labels").get(QUEUE) and at(case.job, *path):
        sentence = "the job has a Kueue queue too: Volcano would queue again what Kueue has admitted."
        yield Finding(path, sentence, "Keep the queue of the scheduler that your cluster uses.")


def queued_awake(case: ManifestCase) -> Iterator[Finding]:
    path = suspend_path(case)
    if fields(case.job, "metadata", "labels").get(QUEUE) and at(case.job, *path) is False:
        sentence = (
            "Kueue suspends the job until it is admitted despite this value; without Kueue it would start "
            "at once."
        )
        yield Finding(
            path,
            sentence,
            "Write true: the job then waits even if Kueue's webhook is down.",
            (Edit(path, True),),
        )


RULES = (
    ManifestRule("policy.restart", V1_TYPES, restart_policies),
    ManifestRule("policy.no-restart", BATCH_JOB, no_policy),
    ManifestRule("policy.kept-pods", LOST_PODS, kept_pods, ProblemSeverity.WARNING),
    ManifestRule("policy.lost-logs", V1_TYPES, lost_logs, ProblemSeverity.NOTE),
    ManifestRule("policy.spot-restart", SPOT_VMS, spot_restart, ProblemSeverity.WARNING),
    ManifestRule("policy.spot-checkpoint", SPOT_VMS, spot_checkpoint, ProblemSeverity.WARNING),
    ManifestRule("policy.suspended", KUEUE, suspended, ProblemSeverity.WARNING),
    ManifestRule("policy.queue-on-pods", KUEUE, queue_on_pods, ProblemSeverity.WARNING),
    ManifestRule("policy.two-queues", KUEUE, two_queues, ProblemSeverity.WARNING),
    ManifestRule("policy.queue-awake", KUEUE, queued_awake, ProblemSeverity.NOTE),
)
