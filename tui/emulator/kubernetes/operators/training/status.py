"""Status of a Training Operator job: conditions and replica counts."""

from __future__ import annotations

from datetime import datetime

from tui.emulator.kubernetes.operators import conditions
from tui.emulator.kubernetes.operators.metadata import is_terminating
from tui.emulator.kubernetes.operators.training.kinds import REPLICA_TYPE, JobKind
from tui.emulator.kubernetes.resources import Obj
from tui.emulator.kubernetes.times import rfc3339


class TrainingJobStatus:
    """Edits a job's status. `value` is stored."""

    def __init__(self, kind: JobKind, value: Obj, now: datetime) -> None:
        self.kind = kind
        self.value = value
        self.now = rfc3339(now)

    def has(self, condition: str) -> bool:
        """Return whether the condition is True."""
        return conditions.is_true(self.value, condition)

    @property
    def finished(self) -> bool:
        """Whether the job has succeeded or failed."""
        return self.has("Succeeded") or self.has("Failed")

    def set(self, condition: str, reason: str, message: str, *, status: str = "True") -> bool:
        """Set a condition unless it is already set or the job has failed; return whether it changed.

        The job's kind prefixes the reason.
        """
        if self.has("Failed"):
            return False
        return self.put(condition, self.kind.kind + reason, message, status=status)

    def put(self, condition: str, reason: str, message: str, *, status: str = "True") -> bool:
        """Set a condition unless it is already set; return whether it changed.

        Running and Restarting exclude each other; the end of the job sets Running to False.
        """
        known: list[Obj] = self.value.get("conditions") or []
        current = conditions.find(self.value, condition)
        if current and (current["status"], current["reason"]) == (status, reason):
            return False
        unchanged = current is not None and current["status"] == status
        new = {
            "type": condition,
            "status": status,
            "lastUpdateTime": self.now,
            "lastTransitionTime": current["lastTransitionTime"] if unchanged and current else self.now,
            "reason": reason,
            "message": message,
        }
        self.value["conditions"] = [*_others(known, condition), new]
        return True

    def start(self, *, again: bool = False) -> None:
        """Set the start time, once or on each resumption."""
        if again or not self.value.get("startTime"):
            self.value["startTime"] = self.now

    def complete(self) -> None:
        """Set the completion time, once."""
        if not self.value.get("completionTime"):
            self.value["completionTime"] = self.now

    def counts(self, replica_type: str) -> Obj:
        """Return the last reported counts of a replica type."""
        statuses = self.value.get("replicaStatuses") or {}
        return statuses.get(replica_type) or {}

    def count(self, replica_type: str, pods: list[Obj], job_name: str) -> Obj:
        """Count the pods of a replica type and store the counts."""
        tally = {"active": 0, "succeeded": 0, "failed": 0}
        for pod in pods:
            field = _counted_as(pod)
            if field:
                tally[field] += 1
        labels = self.kind.labels(job_name) | {REPLICA_TYPE: replica_type.lower()}
        selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
        kept = {field: number for field, number in tally.items() if number}
        self.value.setdefault("replicaStatuses", {})[replica_type] = kept | {"selector": selector}
        return tally

    def settle_counts(self, *, succeeded: bool) -> None:
        """Move active pods to succeeded if the job succeeded, otherwise drop them."""
        for counts in (self.value.get("replicaStatuses") or {}).values():
            active = counts.pop("active", 0)
            if succeeded and active:
                counts["succeeded"] = counts.get("succeeded", 0) + active


def _others(known: list[Obj], condition: str) -> list[Obj]:
    excluded = {"Restarting": "Running", "Running": "Restarting"}.get(condition)
    kept = [entry for entry in known if entry["type"] not in (condition, excluded)]
    if condition in ("Failed", "Succeeded"):
        kept = [entry | {"status": "False"} if entry["type"] == "Running" else entry for entry in kept]
    return kept


def _counted_as(pod: Obj) -> str:
    phase = (pod.get("status") or {}).get("phase")
    if phase == "Running":
        # As in the operator, a running pod that is being deleted may never report its end.
        return "failed" if is_terminating(pod) else "active"
    return {"Succeeded": "succeeded", "Failed": "failed"}.get(phase or "", "")
