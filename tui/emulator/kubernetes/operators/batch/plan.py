"""Plans the job controller's next actions from only a Job and its pods.

Each pod is counted once, even if the process ends in between: an ended pod is recorded in
`uncountedTerminatedPods` before its finalizer is removed, and counted afterwards.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from datetime import datetime

from tui.emulator.kubernetes.operators import conditions
from tui.emulator.kubernetes.operators.batch import indexes
from tui.emulator.kubernetes.operators.batch.failure_policy import judge
from tui.emulator.kubernetes.operators.batch.pods import (
    ended_at,
    index_of,
    is_active,
    is_failed,
    is_indexed,
    is_ready,
    is_stopping,
    is_tracked,
    new_pod,
    replaces_only_failed,
    restarts_of,
)
from tui.emulator.kubernetes.operators.metadata import is_terminating, phase_of, seconds_until, uid_of
from tui.emulator.kubernetes.resources import Obj
from tui.emulator.kubernetes.times import rfc3339

FIRST_BACKOFF_S = 10.0
LONGEST_BACKOFF_S = 600.0
"""Maximum delay in seconds before a failed pod's replacement; each failure in a row doubles the delay."""
BACKOFF_LIMIT = 6
"""Default backoff limit."""


@dataclass
class BatchJobPlan:
    """The new status and the changes of pods, in order."""

    status: Obj
    untrack: list[Obj] = field(default_factory=list)
    """Pods whose finalizer to remove."""
    delete: list[Obj] = field(default_factory=list)
    create: list[Obj] = field(default_factory=list)
    delete_job: bool = False
    events: list[tuple[str, str, str]] = field(default_factory=list)
    """Type, reason and message of each Event."""
    again: float | None = None

    def check_again(self, seconds: float) -> None:
        """Check again after this many seconds, or earlier."""
        seconds = max(seconds, 0.0)
        self.again = seconds if self.again is None else min(self.again, seconds)


def plan_job(job: Obj, pods: list[Obj], now: datetime) -> BatchJobPlan:
    """Plan the next actions for the Job."""
    return _Planner(job, pods, now).plan()


class _Planner:
    """Plans one reconciliation of a Job."""

    def __init__(self, job: Obj, pods: list[Obj], now: datetime) -> None:
        self.job, self.spec, self.pods, self.now = job, job["spec"], pods, now
        self.status: Obj = copy.deepcopy(job.get("status") or {})
        self.result = BatchJobPlan(self.status)
        self.indexed = is_indexed(job)
        self.tracked = [pod for pod in pods if is_tracked(pod)]
        self.active = [pod for pod in pods if is_active(pod)]
        self.suspended = bool(self.spec.get("suspend"))

    def plan(self) -> BatchJobPlan:
        if conditions.is_true(self.status, "Complete") or conditions.is_true(self.status, "Failed"):
            self.result.untrack = self.tracked
            self._expire()
            return self.result
        if not self.suspended and not self.status.get("startTime"):
            self.status["startTime"] = rfc3339(self.now)
        self._count_untracked()
        had_target = self._target() is not None
        self._new_succeeded = [pod for pod in self._uncounted("succeeded") if phase_of(pod) == "Succeeded"]
        self._new_failed = [pod for pod in self._uncounted("failed") if is_failed(self.job, pod)]
        self._done = indexes.parse(self.status.get("completedIndexes") or "") if self.indexed else set()
        if self.indexed:
            self._done |= {index_of(pod) for pod in self._new_succeeded}
            self._done = {index for index in self._done if 0 <= index < self._completions()}
        self._decide()
        if self._target() is not None:
            self.result.delete = list(self.active)
        elif not is_terminating(self.job):
            self._manage()
        self._track()
        self._report()
        if had_target:
            self._finish()
        return self.result

    def _completions(self) -> int:
        completions = self.spec.get("completions")
        return self._parallelism() if completions is None else int(completions)

    def _parallelism(self) -> int:
        parallelism = self.spec.get("parallelism")
        return 1 if parallelism is None else int(parallelism)

    def _target(self) -> Obj | None:
        """Return the condition that determines how the Job will end."""
        for condition in ("SuccessCriteriaMet", "FailureTarget"):
            if conditions.is_true(self.status, condition):
                return conditions.find(self.status, condition)
        return None

    def _aim(self, condition: str, reason: str, message: str) -> None:
        conditions.put(self.status, condition, reason, message, rfc3339(self.now))

    def _noted(self, kind: str) -> list[str]:
        """Return the uids of ended pods that are not counted yet."""
        noted: list[str] = self.status.setdefault("uncountedTerminatedPods", {}).setdefault(kind, [])
        return noted

    def _count_untracked(self) -> None:
        tracked = {uid_of(pod) for pod in self.tracked}
        for kind in ("succeeded", "failed"):
            noted = self._noted(kind)
            left = [uid for uid in noted if uid in tracked]
            if len(left) < len(noted):
                self.status[kind] = self.status.get(kind, 0) + len(noted) - len(left)
            noted[:] = left

    def _uncounted(self, kind: str) -> list[Obj]:
        noted = set(self._noted(kind))
        valid = [pod for pod in self.tracked if uid_of(pod) not in noted]
        if not self.indexed:
            return valid
        return [pod for pod in valid if 0 <= index_of(pod) < self._completions()]

    def _succeeded(self) -> int:
        if self.indexed:
            return len(self._done)
        counted = int(self.status.get("succeeded", 0))
        return counted + len(self._noted("succeeded")) + len(self._new_succeeded)

    def _decide(self) -> None:
        """Decide whether and how the Job ends, unless already decided."""
        if self._target() is not None:
            return
        policy = self.spec.get("podFailurePolicy")
        verdicts = [judge(policy, pod).fails for pod in self.pods if policy and is_failed(self.job, pod)]
        if message := next(filter(None, verdicts), ""):
            self._aim("FailureTarget", "PodFailurePolicy", message)
        elif self._is_past_backoff_limit():
            message = "Job has reached the specified backoff limit"
            self._aim("FailureTarget", "BackoffLimitExceeded", message)
        elif self._is_past_deadline():
            self._aim("FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline")
        elif self.indexed and (message := self._success_policy()):
            self._aim("SuccessCriteriaMet", "SuccessPolicy", message)

    def _is_past_backoff_limit(self) -> bool:
        limit = self.spec.get("backoffLimit")
        limit = BACKOFF_LIMIT if limit is None else int(limit)
        policy = self.spec.get("podFailurePolicy")
        new = len(self._noted("failed")) + sum(judge(policy, pod).counts for pod in self._new_failed)
        if new and self.status.get("failed", 0) + new > limit:
            return True
        if self.spec["template"]["spec"].get("restartPolicy") != "OnFailure":
            return False
        restarts = restarts_of(self.pods)
        return restarts > 0 if limit == 0 else restarts >= limit

    def _is_past_deadline(self) -> bool:
        deadline, started = self.spec.get("activeDeadlineSeconds"), self.status.get("startTime")
        if deadline is None or started is None or self.suspended:
            return False
        left = seconds_until(started, deadline, self.now)
        if left > 0:
            self.result.check_again(left)
        return left <= 0

    def _success_policy(self) -> str:
        for number, rule in enumerate((self.spec.get("successPolicy") or {}).get("rules") or ()):
            named = rule.get("succeededIndexes")
            required = indexes.parse(named) if named is not None else set(range(self._completions()))
            met = self._done & required
            count = rule.get("succeededCount")
            if len(met) >= (len(required) if count is None else int(count)):
                return f"Matched rules at index {number}"
        return ""

    def _manage(self) -> None:
        """Adjust the number of active pods, and check whether the Job is complete."""
        active = len(self.active)
        if self.suspended:
            self._remove(self.active)
            active = 0
        else:
            active = self._scale(active)
        completions = self.spec.get("completions")
        succeeded = self._succeeded()
        if active == 0 and (succeeded > 0 if completions is None else succeeded >= int(completions)):
            message = "Reached expected number of succeeded pods"
            self._aim("SuccessCriteriaMet", "CompletionsReached", message)
            return
        now = rfc3339(self.now)
        if self.suspended:
            if conditions.put(self.status, "Suspended", "JobSuspended", "Job suspended", now):
                self.result.events.append(("Normal", "Suspended", "Job suspended"))
        elif conditions.is_true(self.status, "Suspended"):
            conditions.put(self.status, "Suspended", "JobResumed", "Job resumed", now, value="False")
            self.status["startTime"] = now
            self.result.events.append(("Normal", "Resumed", "Job resumed"))

    def _remove(self, pods: list[Obj]) -> None:
        """Delete pods without counting them as failed."""
        self.result.untrack += [pod for pod in pods if is_tracked(pod)]
        self.result.delete += pods

    def _scale(self, active: int) -> int:
        completions, succeeded = self.spec.get("completions"), self._succeeded()
        if completions is None:
            target = active if succeeded else self._parallelism()
        else:
            target = max(min(int(completions) - succeeded, self._parallelism()), 0)
        surplus = self._surplus(active - target)
        if surplus:
            self._remove(surplus)
            return active - len(surplus)
        stopping = sum(is_stopping(pod) for pod in self.pods) if replaces_only_failed(self.job) else 0
        missing = target - active - stopping
        if missing <= 0:
            return active
        if (wait := self._backoff()) > 0:
            self.result.check_again(wait)
            return max(active, 1)  # a waiting Job is not complete
        created = [new_pod(self.job, index) for index in self._next_indexes(missing)]
        self.result.create = created
        return active + len(created)

    def _surplus(self, count: int) -> list[Obj]:
        """Return the active pods to delete: first those without a valid unique index, then the least
        advanced."""
        removed: list[Obj] = []
        if self.indexed:
            seen: set[int] = set()
            for pod in sorted(self.active, key=_progress, reverse=True):
                index = index_of(pod)
                if index in seen or not 0 <= index < self._completions():
                    removed.append(pod)
                seen.add(index)
        rest = sorted((pod for pod in self.active if pod not in removed), key=_progress)
        return removed + rest[: max(count - len(removed), 0)]

    def _next_indexes(self, count: int) -> list[int] | list[None]:
        if not self.indexed:
            return [None] * count
        used = self._done | {index_of(pod) for pod in self.active}
        if replaces_only_failed(self.job):
            used |= {index_of(pod) for pod in self.pods if is_stopping(pod)}
        return [index for index in range(self._completions()) if index not in used][:count]

    def _backoff(self) -> float:
        """Return the remaining back-off in seconds after consecutive failures."""
        ends = sorted(
            (ended, phase_of(pod) != "Succeeded")
            for pod in self.pods
            if (is_failed(self.job, pod) or phase_of(pod) == "Succeeded") and (ended := ended_at(pod))
        )
        failures = 0
        for _, failed in reversed(ends):
            if not failed:
                break
            failures += 1
        if failures == 0:
            return 0.0
        delay = min(FIRST_BACKOFF_S * 2.0 ** (failures - 1), LONGEST_BACKOFF_S)
        return delay - (self.now - ends[-1][0]).total_seconds()

    def _track(self) -> None:
        target = self._target()
        for pod in self.tracked:
            failed = is_failed(self.job, pod)
            if not (is_terminating(self.job) or target or phase_of(pod) == "Succeeded" or failed):
                continue
            if pod not in self.result.untrack:
                self.result.untrack.append(pod)
            uid = uid_of(pod)
            if phase_of(pod) == "Succeeded":
                if not self.indexed and uid not in self._noted("succeeded"):
                    self._noted("succeeded").append(uid)
            elif failed or (target is not None and target["type"] == "FailureTarget"):
                counts = judge(self.spec.get("podFailurePolicy"), pod).counts
                if counts and uid not in self._noted("failed"):
                    self._noted("failed").append(uid)

    def _report(self) -> None:
        deleted = [pod for pod in self.result.delete if pod in self.active]
        left = [pod for pod in self.active if pod not in deleted]
        _set_or_drop(self.status, "active", len(left) + len(self.result.create))
        self.status["ready"] = sum(is_ready(pod) for pod in left)
        self.status["terminating"] = len(deleted) + sum(is_stopping(pod) for pod in self.pods)
        if self.indexed:
            _set_or_drop(self.status, "completedIndexes", indexes.render(self._done))
            _set_or_drop(self.status, "succeeded", len(self._done))
        for kind in ("succeeded", "failed"):
            if not self._noted(kind):
                del self.status["uncountedTerminatedPods"][kind]

    def _finish(self) -> None:
        """Set the final condition once all pods are counted and gone."""
        target = self._target()
        if target is None or self.status["uncountedTerminatedPods"] or self.status["terminating"]:
            return
        now = rfc3339(self.now)
        if target["type"] == "SuccessCriteriaMet":
            conditions.put(self.status, "Complete", target["reason"], target["message"], now)
            self.status["completionTime"] = now
            self.result.events.append(("Normal", "Completed", "Job completed"))
        else:
            conditions.put(self.status, "Failed", target["reason"], target["message"], now)
            self.result.events.append(("Warning", target["reason"], target["message"]))

    def _expire(self) -> None:
        ttl = self.spec.get("ttlSecondsAfterFinished")
        if ttl is None or is_terminating(self.job):
            return
        left = seconds_until(conditions.end_time(self.status, "Complete", "Failed"), ttl, self.now)
        if left > 0:
            self.result.check_again(left)
        else:
            self.result.delete_job = True


def _set_or_drop(status: Obj, name: str, value: int | str) -> None:
    if value:
        status[name] = value
    else:
        status.pop(name, None)


def _progress(pod: Obj) -> tuple[bool, bool, bool]:
    """Return a pod's progress; the least advanced pods are deleted first."""
    return bool(pod["spec"].get("nodeName")), phase_of(pod) == "Running", is_ready(pod)
