"""The state of a job from the conditions of its object, with the native reason.

Training Operator v1 has a condition for each state, a JobSet and a TrainJob count their ready jobs, and a
batch Job counts its pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from typing import Any

from tui.domain.core.states import JobState
from tui.domain.kubernetes.workloads import QUEUE, at, elements, fields, whole

Obj = Mapping[str, Any]
# The first true condition decides, because an ended job stays ended. Names differ between kinds.
_ENDS = (
    ("Failed", JobState.FAILED),
    ("Succeeded", JobState.SUCCEEDED),
    ("Complete", JobState.SUCCEEDED),
    ("Completed", JobState.SUCCEEDED),
)
_TELLING = frozenset({"Failed", "Suspended", "Restarting", "FailureTarget"})
"""Conditions whose reason adds information to their name."""
CREATED = "Created"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of an object; `since` is the time of its last transition."""

    type: str
    true: bool
    reason: str = ""
    message: str = ""
    since: datetime | None = None

    @property
    def words(self) -> str:
        """The condition as text, e.g. `Reason: message`."""
        return (
            f"{self.reason}: {self.message}" if self.reason and self.message else self.message or self.reason
        )


@dataclass(frozen=True, slots=True)
class Status:
    """A job's state, the native name of the state, and its reason."""

    state: JobState
    native: str
    reason: str = ""
    since: datetime | None = None


def conditions_of(obj: Obj) -> list[Condition]:
    """Return the conditions in an object's status."""
    return [
        Condition(
            str(item["type"]),
            item.get("status") == "True",
            str(item.get("reason") or ""),
            " ".join(str(item.get("message") or "").split()),
            time_of(item.get("lastTransitionTime")),
        )
        for item in elements(obj, "status", "conditions")
        if isinstance(item, Mapping) and item.get("type")
    ]


def condition(obj: Obj, kind: str) -> Condition | None:
    """Return the condition of this type if its status is true."""
    return next((entry for entry in conditions_of(obj) if entry.type == kind and entry.true), None)


def status_of(obj: Obj, kind: str) -> Status:
    """Return the state of a job object; `kind` is its key in `tui.kinds`."""
    true = {entry.type: entry for entry in conditions_of(obj) if entry.true}
    for name, state in _ENDS:
        if name in true:
            current = true[name]
            return Status(state, name, current.words if name in _TELLING else "", current.since)
    if fields(obj, "metadata").get("deletionTimestamp"):
        return Status(JobState.CANCELLING, "Terminating", "The job is being deleted.")
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
            current = true[name]
            return Status(state, name, current.words if name in _TELLING else "", current.since)
    return Status(JobState.PENDING, CREATED if CREATED in true else "")


def resumed_at(obj: Obj, workload: Obj | None = None) -> datetime | None:
    """Return the time of a job's resume after a suspension; `None` if it was never resumed.

    Kueue suspends and resumes the jobs that it admits. For a job in a queue the result is the time at which
    it was queued again.
    """
    if queue_of(obj):
        again = condition(workload or {}, "Requeued")
        return again.since if again else None
    lifted = (entry for entry in conditions_of(obj) if entry.type == "Suspended" and not entry.true)
    return next((entry.since for entry in lifted), None)


def is_suspended(obj: Obj) -> bool:
    """Return whether the spec suspends the job."""
    return at(obj, *suspend_path(obj)) is True


def suspend_path(obj: Obj) -> tuple[str, ...]:
    """Return the path of the suspend field, which is in the run policy of Training Operator v1."""
    group = str(obj.get("apiVersion") or "").partition("/")[0]
    return ("spec", "runPolicy", "suspend") if group == "kubeflow.org" else ("spec", "suspend")


def queue_of(obj: Obj) -> str:
    """Return the LocalQueue that admits the job, or "" if Kueue does not manage it."""
    return str(fields(obj, "metadata", "labels").get(QUEUE) or "")


def _of_parts(obj: Obj) -> Status:
    """Return the status of a TrainJob or JobSet, which have no Running condition."""
    parts = elements(obj, "status", "jobsStatus") or elements(obj, "status", "replicatedJobsStatus")
    ready, active = _sum(parts, "ready"), _sum(parts, "active")
    restarts = whole(at(obj, "status", "restarts")) or 0
    if ready:
        return Status(JobState.RUNNING, "Running")
    if restarts and active:
        return Status(JobState.RESTARTING, "Restarting", f"Restart {restarts}")
    return Status(JobState.PENDING, CREATED)


def _of_pods(obj: Obj, true: Mapping[str, Condition]) -> Status:
    """Return the status of a batch Job, from its pod counts."""
    counts = fields(obj, "status")
    if "FailureTarget" in true:
        target = true["FailureTarget"]
        return Status(JobState.CANCELLING, "FailureTarget", target.words, target.since)
    if whole(counts.get("ready")):
        return Status(JobState.RUNNING, "Running")
    failed = whole(counts.get("failed"))
    if failed:
        return Status(JobState.RESTARTING, "Restarting", f"{failed} pods have failed")
    return Status(JobState.PENDING, CREATED)


def _sum(parts: Iterable[Any], name: str) -> int:
    return sum(whole(fields(part).get(name)) or 0 for part in parts)


def time_of(text: Any) -> datetime | None:
    """Parse a Kubernetes timestamp in UTC; None if the text is not a time."""
    try:
        time = datetime.fromisoformat(str(text or "").replace("Z", "+00:00"))
    except ValueError:
        return None
    if not MINYEAR < time.year < MAXYEAR:
        # Durations can't be added to such a time.
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
