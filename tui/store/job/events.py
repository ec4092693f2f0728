"""The events of one job in time order: its states, the platform's messages, and the trainer's milestones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from tui.domain.core.job import Job
from tui.domain.core.log_entry import SERVICE, LogEntry, LogGap, Severity
from tui.domain.core.training_progress import structured_kind

MILESTONES = frozenset({
    "phase", "checkpoint", "preempted", "resumed", "guard", "hang", "replicas", "error", "save_failed",
    "done",
})  # fmt: skip
_CREATED = "created"
MAX_EVENTS = 5_000
"""Maximum number of stored events; the newest events are kept."""


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One event. `kind` is `state`, `service`, `gap` or a milestone of the trainer."""

    timestamp: datetime
    kind: str
    where: str
    text: str
    severity: Severity = Severity.INFO
    key: str = ""


def event_of(entry: LogEntry) -> JobEvent | None:
    """Return the event in a log entry, or `None` for an ordinary line."""
    if entry.replica == SERVICE:
        kind = "service"
    else:
        kind = structured_kind(entry.json)
        if kind not in MILESTONES:
            return None
    key = f"{entry.timestamp.isoformat()} {entry.insert_id} {entry.replica}"
    return JobEvent(entry.timestamp, kind, entry.replica, entry.message, entry.severity, key)


def state_events(job: Job) -> list[JobEvent]:
    """Return the changes of state that follow from the job's timestamps."""
    events = []
    if job.create_time is not None:
        events.append(JobEvent(job.create_time, "state", "", "created", key=_CREATED))
    if job.start_time is not None:
        events.append(JobEvent(job.start_time, "state", "", "running", key="running"))
    if job.end_time is not None:
        word = job.state.value.lower()
        severity = Severity.ERROR if job.error else Severity.INFO
        text = f"{word}: {job.error.summary}" if job.error else word
        events.append(JobEvent(job.end_time, "state", "", text, severity, key="ended"))
    return events


class JobEvents:
    """Collects the events of one job; `ordered` merges them."""

    def __init__(self) -> None:
        self._extracted: dict[str, JobEvent] = {}
        self._observed: list[JobEvent] = []
        self._state = ""

    def add(self, entries: Iterable[LogEntry], gaps: Iterable[LogGap] = ()) -> bool:
        """Extract the events of these lines. Return whether there is a new event."""
        before = len(self._extracted)
        for entry in entries:
            if entry.json is None and entry.replica != SERVICE:
                continue
            event = event_of(entry)
            if event is not None:
                self._extracted[event.key] = event
        for gap in gaps:
            key = f"gap {gap.timestamp.isoformat()} {gap.count} {gap.reason}"
            weight = Severity.INFO if gap.count == 0 else Severity.WARNING
            self._extracted[key] = JobEvent(gap.timestamp, "gap", "", gap.words, weight, key)
        added = len(self._extracted) > before
        if len(self._extracted) > MAX_EVENTS:
            for event in sorted(self._extracted.values(), key=_when)[: len(self._extracted) - MAX_EVENTS]:
                del self._extracted[event.key]
        return added

    def observe(self, job: Job, now: datetime) -> bool:
        """Record a change of state that the job's timestamps don't show, e.g. a restart. Return whether one
        was recorded."""
        before, self._state = self._state, job.state.value
        if before in {"", job.state.value} or job.state.terminal:
            return False
        if job.state.value == "RUNNING" and before != "RESTARTING":
            return False
        key = f"seen {len(self._observed)}"
        self._observed.append(JobEvent(now, "state", "", job.state.value.lower(), key=key))
        return True

    def ordered(self, job: Job | None) -> list[JobEvent]:
        """Return all events, oldest first."""
        known = state_events(job) if job else []
        return sorted([*known, *self._observed, *self._extracted.values()], key=_when)


def _when(event: JobEvent) -> tuple[datetime, bool, str]:
    """Return the sort key: time first; among events of the same time, the creation comes first, then the key
    decides."""
    return event.timestamp, event.key != _CREATED, event.key
