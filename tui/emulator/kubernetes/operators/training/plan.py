"""Plans the operator's next actions from a job and its objects."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from tui.emulator.kubernetes.operators.metadata import is_terminating, name_of, phase_of, seconds_until
from tui.emulator.kubernetes.operators.training.gang import pod_group, policy_of
from tui.emulator.kubernetes.operators.training.kinds import JobKind
from tui.emulator.kubernetes.operators.training.pods import of_type
from tui.emulator.kubernetes.operators.training.status import TrainingJobStatus
from tui.emulator.kubernetes.resources import Obj

RETRYABLE_FROM = 128
"""Lowest retryable exit code under the restart policy ExitCode."""


@dataclass(frozen=True)
class OperatorEvent:
    """An Event about the job."""

    reason: str
    message: str
    warning: bool = False


@dataclass
class TrainingJobPlan:
    """Objects to create and delete, the new status, and when to check again."""

    status: TrainingJobStatus
    create: list[Obj] = field(default_factory=list)
    delete_pods: list[str] = field(default_factory=list)
    delete_services: list[str] = field(default_factory=list)
    pod_group: Obj | None = None
    """PodGroup of the pods."""
    delete_pod_group: bool = False
    delete_job: bool = False
    events: list[OperatorEvent] = field(default_factory=list)
    again: float | None = None

    def say(self, reason: str, message: str, *, warning: bool = False) -> None:
        """Add an Event; the job's kind prefixes the reason."""
        self.events.append(OperatorEvent(self.status.kind.kind + reason, message, warning))

    def delete(self, pod: Obj) -> None:
        """Delete a pod unless it is already being deleted."""
        if not is_terminating(pod) and name_of(pod) not in self.delete_pods:
            self.delete_pods.append(name_of(pod))

    def check_again(self, seconds: float) -> None:
        """Check again after this many seconds, or earlier."""
        seconds = max(seconds, 0.0)
        self.again = seconds if self.again is None else min(self.again, seconds)


@dataclass(frozen=True)
class TrainingJobObjects:
    """A job with its defaults, and its existing objects."""

    kind: JobKind
    job: Obj
    pods: list[Obj]
    services: list[Obj]
    now: datetime

    @property
    def name(self) -> str:
        """The job's name."""
        return name_of(self.job)

    @property
    def policy(self) -> Obj:
        """The job's run policy."""
        policy: Obj = self.job["spec"]["runPolicy"]
        return policy


Step = Callable[[TrainingJobObjects, TrainingJobPlan], None]


def begin(seen: TrainingJobObjects) -> TrainingJobPlan:
    """Return a plan based on the job's status, with the condition Created."""
    status = TrainingJobStatus(seen.kind, copy.deepcopy(seen.job.get("status") or {}), seen.now)
    status.set("Created", "Created", f"{seen.kind.kind} {seen.name} is created.")
    return TrainingJobPlan(status)


def clean_up(seen: TrainingJobObjects, plan: TrainingJobPlan) -> None:
    """Delete the pods, and services of the same names, that cleanPodPolicy does not preserve.

    An unfinished job, such as a suspended job, preserves no pods.
    """
    policy = seen.policy["cleanPodPolicy"]
    plan.delete_pod_group = policy_of(seen.job) is not None
    if plan.status.finished and policy == "None":
        return
    services = {name_of(service) for service in seen.services}
    for pod in seen.pods:
        if plan.status.finished and policy == "Running" and phase_of(pod) not in ("Running", "Pending"):
            continue
        plan.delete(pod)
        if name_of(pod) in services:
            plan.delete_services.append(name_of(pod))


def expire(seen: TrainingJobObjects, plan: TrainingJobPlan) -> None:
    """Delete the job when its time to live has passed."""
    ttl = seen.policy.get("ttlSecondsAfterFinished")
    ended = plan.status.value.get("completionTime")
    # As in the operator, a job without completion time, e.g. failed by a permanent exit code, stays.
    if ttl is None or ended is None or seen.policy.get("suspend"):
        return
    left = seconds_until(ended, ttl, seen.now)
    if left > 0:
        plan.check_again(left)
    else:
        plan.delete_job = True


def suspend(seen: TrainingJobObjects, plan: TrainingJobPlan) -> None:
    """Delete the pods of a suspended job and report the suspension."""
    clean_up(seen, plan)
    plan.status.settle_counts(succeeded=False)
    message = f"{seen.kind.kind} {seen.name} is suspended."
    if plan.status.has("Running"):
        plan.status.set("Running", "Suspended", message, status="False")
    if not plan.status.has("Suspended"):
        plan.status.set("Suspended", "Suspended", message)
        plan.say("Suspended", message)


def resume(seen: TrainingJobObjects, plan: TrainingJobPlan) -> None:
    """End a suspension; the job's time starts again."""
    message = f"{seen.kind.kind} {seen.name} is resumed."
    plan.status.set("Suspended", "Resumed", message, status="False")
    plan.status.start(again=True)
    plan.say("Resumed", message)


def limit_reached(seen: TrainingJobObjects, plan: TrainingJobPlan) -> str:
    """Return why the job must stop, its backoff limit or deadline, or "" if there is no problem."""
    limit = seen.policy.get("backoffLimit")
    if limit is not None and (_has_new_failure(seen, plan, limit) or _restarted_too_often(seen, limit)):
        return f"Job {seen.name} has failed because it has reached the specified backoff limit"
    if _is_past_deadline(seen, plan):
        return f"Job {seen.name} has failed because it was active longer than specified deadline"
    return ""


def _is_past_deadline(seen: TrainingJobObjects, plan: TrainingJobPlan) -> bool:
    """Return whether the deadline has passed; if not, schedule a check at the deadline."""
    deadline, started = seen.policy.get("activeDeadlineSeconds"), plan.status.value.get("startTime")
    if deadline is None or started is None:
        return False
    left = seconds_until(started, deadline, seen.now)
    if left > 0:
        plan.check_again(left)
    return left <= 0


def _has_new_failure(seen: TrainingJobObjects, plan: TrainingJobPlan, limit: int) -> bool:
    """Return whether a pod has failed since the last status if no retry is allowed.

    The operator's queue counts no retries, so this only applies to a limit of 0.
    """
    failed = sum(phase_of(pod) == "Failed" for pod in seen.pods)
    known = sum(
        counts.get("failed", 0) for counts in (plan.status.value.get("replicaStatuses") or {}).values()
    )
    active = sum(
        phase_of(pod) not in ("Failed", "Succeeded") and not is_terminating(pod) for pod in seen.pods
    )
    total = sum(int(replica["replicas"]) for replica in seen.kind.specs(seen.job).values())
    return limit < 1 and failed > known and active != total


def _restarted_too_often(seen: TrainingJobObjects, limit: int) -> bool:
    """Return whether the running pods' container restarts have reached the limit."""
    restarts = 0
    for replica_type, replica in seen.kind.specs(seen.job).items():
        if replica["restartPolicy"] == "Never":
            continue
        for pod in of_type(seen.pods, replica_type):
            if phase_of(pod) == "Running":
                status = pod["status"]
                containers = [
                    *(status.get("initContainerStatuses") or ()),
                    *(status.get("containerStatuses") or ()),
                ]
                restarts += sum(int(container.get("restartCount", 0)) for container in containers)
    return restarts > 0 if limit == 0 else restarts >= limit


def fail(seen: TrainingJobObjects, plan: TrainingJobPlan, message: str) -> None:
    """Fail the job and apply cleanPodPolicy."""
    plan.status.complete()
    plan.say("Failed", message)
    plan.status.set("Failed", "Failed", message)
    clean_up(seen, plan)
    expire(seen, plan)


def _abnormal(pods: Iterable[Obj]) -> Iterator[tuple[str, str]]:
    """Yield reason and message of each failed or unstartable container, and of pods without containers."""
    for pod in pods:
        status = pod.get("status") or {}
        if status.get("phase") in ("Failed", "Succeeded") or is_terminating(pod):
            continue
        containers = status.get("containerStatuses") or status.get("initContainerStatuses")
        if containers:
            for container in containers:
                yield from _of_container(pod, container)
        else:
            yield from _of_condition(pod, status.get("conditions") or [])


def _of_container(pod: Obj, container: Obj) -> Iterator[tuple[str, str]]:
    state = container.get("state") or {}
    which = f"Error pod {name_of(pod)} container {container.get('name')}"
    ended, waiting = state.get("terminated"), state.get("waiting")
    if ended and ended.get("exitCode"):
        text = f"{which} exitCode: {ended['exitCode']} terminated message: {ended.get('message', '')}"
        yield ended.get("reason") or "Error", text
    if waiting and waiting.get("message"):
        yield waiting.get("reason") or "Waiting", f"{which} waiting message: {waiting['message']}"


def _of_condition(pod: Obj, conditions: list[Obj]) -> Iterator[tuple[str, str]]:
    latest = max(conditions, key=lambda condition: condition.get("lastTransitionTime") or "", default=None)
    if latest is not None and latest.get("status") != "True" and latest.get("reason"):
        text = f"Error pod {name_of(pod)} condition message: {latest.get('message', '')}"
        yield str(latest["reason"]), text


def plan_job(seen: TrainingJobObjects, reconcile: Step, conclude: Step) -> TrainingJobPlan:
    """Plan the next actions: `reconcile` maintains the objects, `conclude` derives the state."""
    plan = begin(seen)
    if plan.status.finished:
        clean_up(seen, plan)
        expire(seen, plan)
        if plan.status.has("Succeeded"):
            plan.status.settle_counts(succeeded=True)
        return plan
    if seen.policy.get("suspend"):
        suspend(seen, plan)
        return plan
    if plan.status.has("Suspended"):
        resume(seen, plan)
    plan.events += [OperatorEvent(reason, text, warning=True) for reason, text in _abnormal(seen.pods)]
    if message := limit_reached(seen, plan):
        fail(seen, plan, message)
        return plan
    plan.pod_group = pod_group(seen.kind, seen.job)
    reconcile(seen, plan)
    plan.status.start()
    conclude(seen, plan)
    _is_past_deadline(seen, plan)  # the start time may be new
    return plan
