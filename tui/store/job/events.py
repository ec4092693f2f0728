"""What happened to one job, in time order: its states, the platform's words, the trainer's milestones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from tui.domain.job import Job
from tui.domain.log_entry import SERVICE, LogEntry, LogGap, Severity

MILESTONES = frozenset({"phase", "checkpoint", "preempted", "resumed", "guard", "error", "done"})
MOST = 5_000
"""Lifted events that are kept, the newest ones."""


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One thing that happened. `kind` is `state`, `service`, `gap` or a milestone of the trainer."""

    timestamp: datetime
    kind: str
    where: str
    text: str
    severity: Severity = Severity.INFO
    key: str = ""


def lift(entry: LogEntry) -> JobEvent | None:
    """The event that a log entry tells of, or `None` for an ordinary line."""
    if entry.replica == SERVICE:
        kind = "service"
    else:
        fields = (entry.json or {}).get("vxtui")
        if not isinstance(fields, Mapping) or fields.get("kind") not in MILESTONES:
            return None
        kind = str(fields["kind"])
    key = f"{entry.timestamp.isoformat()} {entry.insert_id} {entry.replica}"
    return JobEvent(entry.timestamp, kind, entry.replica, entry.message, entry.severity, key)


def state_events(job: Job) -> list[JobEvent]:
    """The changes of state that the job's own times tell of."""
    found = []
    if job.create_time is not None:
        found.append(JobEvent(job.create_time, "state", "", "created", key="created"))
    if job.start_time is not None:
        found.append(JobEvent(job.start_time, "state", "", "running", key="running"))
    if job.end_time is not None:
        word = job.state.value.lower()
        severity = Severity.ERROR if job.error else Severity.INFO
        text = f"{word}: {job.error.message}" if job.error else word
        found.append(JobEvent(job.end_time, "state", "", text, severity, key="ended"))
    return found


class JobEvents:
    """Collects events of one job; `ordered` puts them together."""

    def __init__(self) -> None:
        self._lifted: dict[str, JobEvent] = {}
        self._seen: list[JobEvent] = []
        self._state = ""

    def add(self, entries: Iterable[LogEntry], gaps: Iterable[LogGap] = ()) -> bool:
        """Lift what these lines tell; whether there was anything new."""
        before = len(self._lifted)
        for entry in entries:
            if entry.json is None and entry.replica != SERVICE:
                continue
            event = lift(entry)
            if event is not None:
                self._lifted[event.key] = event
        for gap in gaps:
            key = f"gap {gap.timestamp.isoformat()} {gap.count} {gap.reason}"
            weight = Severity.WARNING if gap.count else Severity.INFO
            self._lifted[key] = JobEvent(gap.timestamp, "gap", "", gap.words, weight, key)
        added = len(self._lifted) > before
        if len(self._lifted) > MOST:
            for event in sorted(self._lifted.values(), key=_when)[: len(self._lifted) - MOST]:
                del self._lifted[event.key]
        return added

    def see(self, job: Job, now: datetime) -> bool:
        """Note a change of state that the job's times don't tell of, e.g. a restart."""
        before, self._state = self._state, job.state.value
        if before in {"", job.state.value} or job.state.terminal:
            return False
        if job.state.value == "RUNNING" and before != "RESTARTING":
            return False
        key = f"seen {len(self._seen)}"
        self._seen.append(JobEvent(now, "state", "", job.state.value.lower(), key=key))
        return True

    def ordered(self, job: Job | None) -> list[JobEvent]:
        """All events, the oldest first."""
        known = state_events(job) if job else []
        return sorted([*known, *self._seen, *self._lifted.values()], key=_when)


def _when(event: JobEvent) -> datetime:
    return event.timestamp
