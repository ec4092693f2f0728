"""Plans the JobSet controller's next actions from only a JobSet and its Jobs."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tui.emulator.kubernetes.operators import conditions
from tui.emulator.kubernetes.operators.jobset.child_jobs import (
    REPLICATED_JOB,
    attempt_of,
    child_job,
    end_of,
    job_name,
    replicated_jobs,
    restarts,
    resumed_spec,
)
from tui.emulator.kubernetes.operators.metadata import labels_of, name_of, seconds_until
from tui.emulator.kubernetes.resources import Obj
from tui.emulator.kubernetes.times import rfc3339

COUNTS = ("ready", "succeeded", "failed", "active", "suspended")


@dataclass
class JobSetPlan:
    """The new status and the changes of the Jobs."""

    status: Obj
    create: list[Obj] = field(default_factory=list)
    delete: list[Obj] = field(default_factory=list)
    respecify: list[tuple[Obj, Obj]] = field(default_factory=list)
    """Jobs and their new specs."""
    starts: bool = False
    """Whether the JobSet's Jobs, and the claims that they mount, are created."""
    needs_service: bool = False
    delete_jobset: bool = False
    events: list[tuple[str, str, str]] = field(default_factory=list)
    """Type, reason and message of each Event."""
    again: float | None = None


def plan_jobset(jobset: Obj, jobs: list[Obj], now: datetime) -> JobSetPlan:
    """Plan the next actions for a JobSet that has its defaults."""
    return _Planner(jobset, jobs, now).plan()


class _Planner:
    def __init__(self, jobset: Obj, jobs: list[Obj], now: datetime) -> None:
        self.jobset, self.spec, self.now = jobset, jobset["spec"], now
        self.status: Obj = copy.deepcopy(jobset.get("status") or {})
        self.result = JobSetPlan(self.status)
        self.previous = [job for job in jobs if attempt_of(job) < restarts(jobset)]
        self.current = [job for job in jobs if job not in self.previous]
        self.suspended = bool(self.spec.get("suspend"))

    def plan(self) -> JobSetPlan:
        counts = self._count()
        if self._is_finished():
            self.result.delete = [job for job in self.current if not end_of(job)]
            self._expire()
            return self.result
        self.result.delete = list(self.previous)
        if not self.suspended and self._all_ready(counts):
            self._set("RestartingJobSet", "JobsReady", "all jobs are ready", value="False")
        failed = [job for job in self.current if end_of(job) == "Failed"]
        if failed:
            self._apply_failure_policy(failed)
        elif not self._has_succeeded():
            self.result.starts = True
            self.result.needs_service = bool(self.spec["network"].get("enableDNSHostnames"))
            self._create(counts)
            self._suspend_or_resume(counts)
        return self.result

    def _is_finished(self) -> bool:
        return any(conditions.is_true(self.status, condition) for condition in ("Completed", "Failed"))

    def _count(self) -> dict[str, dict[str, int]]:
        counts = {replicated["name"]: dict.fromkeys(COUNTS, 0) for replicated in replicated_jobs(self.jobset)}
        for job in self.current:
            own = counts.get(labels_of(job).get(REPLICATED_JOB, ""))
            if own is None:
                continue
            for count in _counted_as(job):
                own[count] += 1
        self.status["replicatedJobsStatus"] = [
            {"name": name, **own} for name, own in sorted(counts.items(), reverse=True)
        ]
        self.status.setdefault("restarts", 0)
        return counts

    def _all_ready(self, counts: Mapping[str, Mapping[str, int]]) -> bool:
        total = sum(int(replicated["replicas"]) for replicated in replicated_jobs(self.jobset))
        return total == sum(own["ready"] + own["succeeded"] for own in counts.values())

    def _set(
        self, condition: str, reason: str, message: str, *, value: str = "True", warn: bool = False
    ) -> None:
        """Set a condition and report the change. A missing condition is not set to False."""
        if value == "False" and conditions.find(self.status, condition) is None:
            return
        other = {
            "StartupPolicyInProgress": "StartupPolicyCompleted",
            "StartupPolicyCompleted": "StartupPolicyInProgress",
        }.get(condition, "")
        if other and value == "True" and conditions.is_true(self.status, other):
            conditions.find(self.status, other)["status"] = "False"  # type: ignore[index]
        if conditions.put(self.status, condition, reason, message, rfc3339(self.now), value=value):
            self.result.events.append(("Warning" if warn else "Normal", reason, message))

    def _end(self, state: str, reason: str, message: str) -> None:
        self._set(state, reason, message, warn=state == "Failed")
        text = "jobset failed" if state == "Failed" else message
        self._set("RestartingJobSet", f"JobSet{state}", text, value="False")
        self.status["terminalState"] = state

    def _apply_failure_policy(self, failed: list[Obj]) -> None:
        policy = self.spec.get("failurePolicy")
        first = min(failed, key=_failed_at)
        if policy is None:
            message = f"jobset failed due to one or more job failures (first failed job: {name_of(first)})"
            self._end("Failed", "FailedJobs", message)
            return
        action, rule = "RestartJobSet", ""
        for candidate in policy.get("rules") or ():
            matching = [job for job in failed if _is_meant(candidate, job)]
            if matching:
                action, rule, first = candidate["action"], candidate["name"], min(matching, key=_failed_at)
                break
        which = f"(first failed job: {name_of(first)})"
        if action == "FailJobSet":
            message = f"applying FailJobSet failure policy action {which}"
            self._end("Failed", "FailJobSetFailurePolicyAction", message)
        else:
            self._restart(action, rule, which, int(policy.get("maxRestarts") or 0))

    def _restart(self, action: str, rule: str, which: str, most: int) -> None:
        counted = int(self.status.get("restartsCountTowardsMax") or 0)
        if action == "RestartJobSet":
            if counted >= most:
                message = f"jobset failed due to reaching max number of restarts {which}"
                self._end("Failed", "ReachedMaxRestarts", message)
                return
            self.status["restartsCountTowardsMax"] = counted + 1
        self.status["restarts"] = restarts(self.jobset) + 1
        message = f"applying {action} failure policy action {which}"
        reason = f"FailurePolicy_{rule}" if rule else "DefaultFailurePolicy"
        self._set("RestartingJobSet", reason, message, warn=True)
        self.result.events.append(("Warning", f"{action}FailurePolicyAction", message))

    def _has_succeeded(self) -> bool:
        policy = self.spec["successPolicy"]
        targets = policy.get("targetReplicatedJobs") or [
            replicated["name"] for replicated in replicated_jobs(self.jobset)
        ]
        done = sum(
            end_of(job) == "Complete" and labels_of(job).get(REPLICATED_JOB) in targets
            for job in self.current
        )
        total = sum(
            int(replicated["replicas"])
            for replicated in replicated_jobs(self.jobset)
            if replicated["name"] in targets
        )
        if not done or done < (1 if policy["operator"] == "Any" else total):
            return False
        self._end("Completed", "AllJobsCompleted", "jobset completed successfully")
        return True

    @property
    def _in_order(self) -> bool:
        return bool(self.spec["startupPolicy"]["startupPolicyOrder"] == "InOrder")

    def _started(self, replicated: Obj, counts: Mapping[str, Mapping[str, int]]) -> bool:
        own = counts[replicated["name"]]
        return int(replicated["replicas"]) == own["failed"] + own["ready"] + own["succeeded"]

    def _may_start(self, replicated: Obj, counts: Mapping[str, Mapping[str, int]]) -> bool:
        """Return whether the dependencies of a replicated job have reached the required state."""
        by_name = {job["name"]: job for job in replicated_jobs(self.jobset)}
        for dependency in replicated.get("dependsOn") or ():
            other = by_name[dependency["name"]]
            if dependency["status"] == "Complete":
                if counts[other["name"]]["succeeded"] != int(other["replicas"]):
                    return False
            elif not self._started(other, counts):
                return False
        return True

    def _create(self, counts: Mapping[str, Mapping[str, int]]) -> None:
        known = {name_of(job) for job in [*self.current, *self.previous]}
        blocked = (self.spec.get("failurePolicy") or {}).get("restartStrategy") == "BlockingRecreate"
        in_order = self._in_order and not self.suspended
        for replicated in replicated_jobs(self.jobset):
            if not self._may_start(replicated, counts):
                continue
            if in_order and self._started(replicated, counts):
                continue
            if not (blocked and self.previous):
                self.result.create += [
                    child_job(self.jobset, replicated, index)
                    for index in range(int(replicated["replicas"]))
                    if job_name(self.jobset, replicated, index) not in known
                ]
            if in_order:
                message = "in order startup policy is in progress"
                self._set("StartupPolicyInProgress", "InOrderStartupPolicyInProgress", message)
                return
        if in_order:
            message = "in order startup policy has completed"
            self._set("StartupPolicyCompleted", "InOrderStartupPolicyCompleted", message)

    def _suspend_or_resume(self, counts: Mapping[str, Mapping[str, int]]) -> None:
        active = [job for job in self.current if not end_of(job)]
        if self.suspended:
            for job in active:
                if not job["spec"].get("suspend"):
                    self.result.respecify.append((job, {**job["spec"], "suspend": True}))
            self._set("Suspended", "SuspendedJobs", "jobset is suspended")
            self._set("RestartingJobSet", "JobSetSuspended", "jobset is suspended", value="False")
            return
        for replicated in replicated_jobs(self.jobset):
            if not self._may_start(replicated, counts):
                continue
            if self._in_order and self._started(replicated, counts):
                continue
            for job in active:
                own = labels_of(job).get(REPLICATED_JOB) == replicated["name"]
                if own and job["spec"].get("suspend"):
                    self.result.respecify.append((job, resumed_spec(job, replicated)))
            if self._in_order:
                return
        self._set("Suspended", "ResumeJobs", "jobset is resumed", value="False")

    def _expire(self) -> None:
        ttl = self.spec.get("ttlSecondsAfterFinished")
        if ttl is None:
            return
        left = seconds_until(conditions.end_time(self.status, "Completed", "Failed"), ttl, self.now)
        if left > 0:
            self.result.again = left
        else:
            self.result.delete_jobset = True


def _counted_as(job: Obj) -> list[str]:
    end = end_of(job)
    if end:
        return ["succeeded" if end == "Complete" else "failed"]
    status, spec = job.get("status") or {}, job["spec"]
    pods = int(spec.get("parallelism") or 1)
    if spec.get("completions") is not None:
        pods = min(pods, int(spec["completions"]))
    counts = []
    if int(status.get("succeeded") or 0) + int(status.get("ready") or 0) >= pods:
        counts.append("ready")
    if status.get("active"):
        counts.append("active")
    if spec.get("suspend"):
        counts.append("suspended")
    return counts


def _failure(job: Obj) -> Obj:
    return conditions.find(job.get("status") or {}, "Failed") or {}


def _failed_at(job: Obj) -> str:
    return str(_failure(job).get("lastTransitionTime") or "")


def _is_meant(rule: Obj, job: Obj) -> bool:
    reasons = rule.get("onJobFailureReasons")
    if reasons and _failure(job).get("reason") not in reasons:
        return False
    patterns = rule.get("onJobFailureMessagePatterns")
    if patterns and not any(_matches(pattern, str(_failure(job).get("message"))) for pattern in patterns):
        return False
    targets = rule.get("targetReplicatedJobs")
    return not targets or labels_of(job).get(REPLICATED_JOB) in targets


def _matches(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return False  # the controller logs the error and continues
