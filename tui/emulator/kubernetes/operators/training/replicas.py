"""Replicas of a PyTorchJob or TFJob: their pods and services, and the job's resulting state."""

from __future__ import annotations

from tui.emulator.kubernetes.operators import conditions
from tui.emulator.kubernetes.operators.metadata import name_of, namespace_of, phase_of
from tui.emulator.kubernetes.operators.training.plan import (
    RETRYABLE_FROM,
    OperatorEvent,
    TrainingJobObjects,
    TrainingJobPlan,
)
from tui.emulator.kubernetes.operators.training.pods import (
    NO_EXIT_CODE,
    by_index,
    desired_pod,
    desired_service,
    exit_code,
)
from tui.emulator.kubernetes.resources import Obj


def reconcile_replicas(seen: TrainingJobObjects, plan: TrainingJobPlan) -> None:
    """Create missing replicas, delete surplus replicas, and restart failed replicas if allowed."""
    for replica_type, replica in seen.kind.specs(seen.job).items():
        count = int(replica["replicas"])
        _reconcile_pods(seen, plan, replica_type, replica, count)
        existing = by_index(seen.services, replica_type)
        for index in range(count):
            if index not in existing:
                plan.create.append(desired_service(seen.kind, seen.job, replica_type, index))
        plan.delete_services += [
            name_of(service)
            for index, services in sorted(existing.items())
            if index >= count
            for service in services
        ]


def _reconcile_pods(
    seen: TrainingJobObjects, plan: TrainingJobPlan, replica_type: str, replica: Obj, count: int
) -> None:
    existing = by_index(seen.pods, replica_type)
    for index in range(count):
        if index not in existing:
            _warn_of_restart_policy(plan, replica)
            plan.create.append(desired_pod(seen.kind, seen.job, replica_type, index))
    counted = []
    for index, pods in sorted(existing.items()):
        pod = pods[0]
        counted.append(pod)
        if index >= count:
            plan.delete(pod)
        _restart_or_fail(seen, plan, replica_type, replica, pod)
    plan.status.count(replica_type, counted, seen.name)


def _warn_of_restart_policy(plan: TrainingJobPlan, replica: Obj) -> None:
    if replica["template"]["spec"].get("restartPolicy"):
        message = "Restart policy in pod template will be overwritten by restart policy in replica spec"
        plan.events.append(OperatorEvent("SetPodTemplateRestartPolicy", message, warning=True))


def _restart_or_fail(
    seen: TrainingJobObjects, plan: TrainingJobPlan, replica_type: str, replica: Obj, pod: Obj
) -> None:
    code = exit_code(seen.kind, pod)
    if code != NO_EXIT_CODE:
        where = f"{namespace_of(pod)}.{name_of(pod)}"
        plan.events.append(OperatorEvent("ExitedWithCode", f"Pod: {where} exited with code {code}"))
    if phase_of(pod) != "Failed":
        return
    policy = replica["restartPolicy"]
    if policy in ("OnFailure", "Always") or (policy == "ExitCode" and code >= RETRYABLE_FROM):
        plan.delete(pod)
        message = f"job {seen.name} is restarting because {replica_type} replica(s) failed."
        plan.say("Restarting", message, warning=True)
        plan.status.set("Restarting", "Restarting", message)
    elif policy == "ExitCode":
        message = f'job "{seen.name}" is failing because "{replica_type}" replica(s) failed.'
        plan.say("Failed", message, warning=True)
        plan.status.set("Failed", "Failed", message)


def _end(plan: TrainingJobPlan, state: str, message: str) -> None:
    plan.say(state, message)
    plan.status.complete()
    plan.status.set(state, state, message)


def conclude_pytorch(seen: TrainingJobObjects, plan: TrainingJobPlan) -> None:
    """Derive a PyTorchJob's state from the master, or from the workers if there is no master."""
    replicas = seen.kind.specs(seen.job)
    for replica_type, replica in replicas.items():
        counts = plan.status.counts(replica_type)
        count, succeeded = int(replica["replicas"]), counts.get("succeeded", 0)
        active, failed = counts.get("active", 0), counts.get("failed", 0)
        if replica_type == "Master":
            if active:
                plan.status.set("Running", "Running", f"PyTorchJob {seen.name} is running.")
            if succeeded >= count:
                _end(plan, "Succeeded", f"PyTorchJob {seen.name} is successfully completed.")
                return
        elif "Master" not in replicas:
            where = f"{namespace_of(seen.job)}/{seen.name}"
            if succeeded >= count or (seen.job["spec"].get("elasticPolicy") is not None and succeeded):
                _end(plan, "Succeeded", f"PyTorchJob {where} successfully completed.")
            elif active:
                plan.status.set("Running", "Running", f"PyTorchJob {where} is running.")
        if failed and count > succeeded + active:
            reason = f"because {failed} {replica_type} replica(s) failed."
            if replica["restartPolicy"] == "Never":
                _end(plan, "Failed", f"PyTorchJob {seen.name} is failed {reason}")
            elif plan.status.set(
                "Restarting", "Restarting", f"PyTorchJob {seen.name} is restarting {reason}"
            ):
                plan.say("Restarting", f"PyTorchJob {seen.name} is restarting {reason}", warning=True)


def conclude_tensorflow(seen: TrainingJobObjects, plan: TrainingJobPlan) -> None:
    """Derive a TFJob's state from the chief or master, or from the workers if there is no master."""
    replicas = seen.kind.specs(seen.job)
    chiefs = {"Chief", "Master"} & set(replicas)
    all_workers = seen.job["spec"].get("successPolicy") == "AllWorkers"
    restarting = conditions.find(plan.status.value, "Restarting")
    where = f"{namespace_of(seen.job)}/{seen.name}"
    for replica_type, replica in replicas.items():
        counts = plan.status.counts(replica_type)
        done = counts.get("succeeded", 0) >= int(replica["replicas"])
        decides = replica_type in chiefs if chiefs else replica_type == "Worker"
        if decides and not chiefs:
            done = done or (not all_workers and _first_worker_succeeded(seen))
        if decides and counts.get("active", 0) and (chiefs or not done):
            plan.status.set("Running", "Running", f"TFJob {where} is running.")
        if decides and done:
            _end(plan, "Succeeded", f"TFJob {where} successfully completed.")
        failed = counts.get("failed", 0)
        if failed and restarting:
            reason = str(restarting["reason"]).removeprefix(seen.kind.kind)
            plan.status.set("Restarting", reason, restarting["message"])
        elif failed and not (replica_type == "Worker" and seen.job["spec"].get("enableDynamicWorker")):
            _end(
                plan, "Failed", f"TFJob {where} has failed because {failed} {replica_type} replica(s) failed."
            )


def _first_worker_succeeded(seen: TrainingJobObjects) -> bool:
    first = by_index(seen.pods, "Worker").get(0, [])
    return any(phase_of(pod) == "Succeeded" and exit_code(seen.kind, pod) == 0 for pod in first)
