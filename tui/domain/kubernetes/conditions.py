"""The state of a job from the conditions of its object, with the native reason beside it.

The kinds say it differently: Training Operator v1 has a condition for each state, a JobSet and a TrainJob say
how many of their jobs are ready, a batch Job how many of its pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tui.domain.core.states import JobState
from tui.domain.kubernetes.workloads import QUEUE, at, elements, fields, whole

Obj = Mapping[str, Any]
# The first one that is true counts; what ended stays ended. Names differ between the kinds.
_ENDS = (
    ("Failed", JobState.FAILED),
    ("Succeeded", JobState.SUCCEEDED),
    ("Complete", JobState.SUCCEEDED),
    ("Completed", JobState.SUCCEEDED),
)
_TELLING = frozenset({"Failed", "Suspended", "Restarting", "FailureTarget"})
"""Conditions whose reason says more than their name."""
CREATED = "Created"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of an object that holds, or held until `since`."""

    type: str
    true: bool
    reason: str = ""
    message: str = ""
    since: datetime | None = None

    @property
    def words(self) -> str:
        """`Reason: message`."""
        return (
            f"{self.reason}: {self.message}" if self.reason and self.message else self.message or self.reason
        )


@dataclass(frozen=True, slots=True)
class Status:
    """A job's state, the word of its service for that, and why."""

    state: JobState
    native: str
    reason: str = ""
    since: datetime | None = None


def conditions_of(obj: Obj) -> list[Condition]:
    """The conditions in an object's status."""
    return [
        Condition(
            str(each["type"]),
            each.get("status") == "True",
            str(each.get("reason") or ""),
            " ".join(str(each.get("message") or "").split()),
            time_of(each.get("lastTransitionTime")),
        )
        for each in elements(obj, "status", "conditions")
        if isinstance(each, Mapping) and each.get("type")
    ]


def condition(obj: Obj, kind: str) -> Condition | None:
    """The condition of this type, where it is true."""
    return next((each for each in conditions_of(obj) if each.type == kind and each.true), None)


def status_of(obj: Obj, kind: str) -> Status:
    """The state of a job object; `kind` is its key in `tui.kinds`."""
    true = {each.type: each for each in conditions_of(obj) if each.true}
    for name, state in _ENDS:
        if name in true:
            found = true[name]
            return Status(state, name, found.words if name in _TELLING else "", found.since)
    if fields(obj, "metadata").get("deletionTimestamp"):
        return Status(JobState.CANCELLING, "Terminating", "It is being deleted.")
    if is_suspended(obj):
        suspended = true.get("Suspended")
        since = suspended.since if suspended else None
        if queue_of(obj):
            return Status(JobState.QUEUED, "Suspended", f"In the queue {queue_of(obj)}", since)
        return Status(JobState.SUSPENDED, "Suspended", suspended.words if suspended else "", since)
    if kind in {"train_job", "job_set"}:
        return _of_parts(obj)
    if kind == "batch_job":
        return _of_pods(obj, true)
    for name, state in (("Restarting", JobState.RESTARTING), ("Running", JobState.RUNNING)):
        if name in true:
            found = true[name]
            return Status(state, name, found.words if name in _TELLING else "", found.since)
    return Status(JobState.PENDING, CREATED if CREATED in true else "")


def resumed_at(obj: Obj, workload: Obj | None = None) -> datetime | None:
    """When the job was told to run again after a suspension; None of one that never was.

    Kueue suspends and resumes what it admits, so of a job in a queue it is when that was queued again.
    """
    if queue_of(obj):
        again = condition(workload or {}, "Requeued")
        return again.since if again else None
    over = (each for each in conditions_of(obj) if each.type == "Suspended" and not each.true)
    return next((each.since for each in over), None)


def is_suspended(obj: Obj) -> bool:
    """Whether the job is asked to have no pods."""
    return at(obj, *suspend_path(obj)) is True


def suspend_path(obj: Obj) -> tuple[str, ...]:
    """Where an object says that it is suspended; Training Operator v1 has it in its run policy."""
    group = str(obj.get("apiVersion") or "").partition("/")[0]
    return ("spec", "runPolicy", "suspend") if group == "kubeflow.org" else ("spec", "suspend")


def queue_of(obj: Obj) -> str:
    """The LocalQueue that admits the job; "" for one that Kueue does not manage."""
    return str(fields(obj, "metadata", "labels").get(QUEUE) or "")


def _of_parts(obj: Obj) -> Status:
    """Of a TrainJob or JobSet: neither has a condition Running."""
    parts = elements(obj, "status", "jobsStatus") or elements(obj, "status", "replicatedJobsStatus")
    ready, active = _sum(parts, "ready"), _sum(parts, "active")
    restarts = whole(at(obj, "status", "restarts")) or 0
    if ready:
        return Status(JobState.RUNNING, "Running")
    if restarts and active:
        return Status(JobState.RESTARTING, "Restarting", f"Restart {restarts}")
    return Status(JobState.PENDING, CREATED)


def _of_pods(obj: Obj, true: Mapping[str, Condition]) -> Status:
    """Of a batch Job, which counts its pods."""
    counts = fields(obj, "status")
    if "FailureTarget" in true:
        found = true["FailureTarget"]
        return Status(JobState.CANCELLING, "FailureTarget", found.words, found.since)
    if whole(counts.get("ready")):
        return Status(JobState.RUNNING, "Running")
    failed = whole(counts.get("failed"))
    if failed:
        return Status(JobState.RESTARTING, "Restarting", f"{failed} pods have failed")
    return Status(JobState.PENDING, CREATED)


def _sum(parts: Iterable[Any], name: str) -> int:
    return sum(whole(fields(part).get(name)) or 0 for part in parts)


def time_of(text: Any) -> datetime | None:
    """A time as Kubernetes writes it, in UTC; None for anything else."""
    try:
        found = datetime.fromisoformat(str(text or "").replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
