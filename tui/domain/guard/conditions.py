"""Conditions on a job that call for an alert, as written in the settings: `failed`, `waiting 2h`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from tui.domain.core.formatting import age, silence_text
from tui.domain.core.job import Job
from tui.domain.core.states import JobState

_ENDS = {
    "failed": frozenset({JobState.FAILED, JobState.EXPIRED}),
    "succeeded": frozenset({JobState.SUCCEEDED}),
    "cancelled": frozenset({JobState.CANCELLED}),
    "ended": frozenset(state for state in JobState if state.terminal),
}
_TIMES = frozenset({"waiting", "running", "silent"})
_LIMITS = (*sorted(_TIMES), "cost", "step")
CONDITIONS = (*_ENDS, "restarting", *(f"{name} LIMIT" for name in _LIMITS))
"""Every condition, for messages."""
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?", re.ASCII)
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class AlertCondition:
    """A condition on a job."""

    name: str
    limit: float = 0.0
    """Seconds for `waiting`, `running` and `silent`, USD for `cost`, steps for `step`; else 0."""

    @property
    def of_end(self) -> bool:
        """Whether only a job that has ended meets the condition."""
        return self.name in _ENDS

    def __str__(self) -> str:
        return f"{self.name} {self.limit:g}" if self.name in _LIMITS else self.name


@dataclass(frozen=True, slots=True)
class JobReading:
    """A job as one read of its service reports it."""

    job: Job
    at: datetime
    """Time of the read."""
    spent: float | None = None
    """Upper bound of the cost so far in USD; `None` if unknown or if nothing is billed."""
    progress_at: datetime | None = None
    """Time of the last read of the job's progress; `None` if it was never read."""


def parse_condition(text: str) -> AlertCondition:
    """Return a condition of the settings. Raises ValueError with the allowed conditions."""
    name, _, limit = text.strip().partition(" ")
    limit = limit.strip()
    if not limit and (name in _ENDS or name == "restarting"):
        return AlertCondition(name)
    if name in _TIMES and (seconds := _seconds(limit)):
        return AlertCondition(name, seconds)
    if name in {"cost", "step"} and _NUMBER.fullmatch(limit) and float(limit) > 0:
        return AlertCondition(name, float(limit))
    if name in _TIMES:
        raise ValueError(f"{text!r} must name a duration such as 45m, 2h or 1d12h, e.g. `{name} 2h`")
    if name in {"cost", "step"}:
        raise ValueError(f"{text!r} must name a number above 0, e.g. `{name} 500`")
    raise ValueError(f"{text!r} must be one of {', '.join(CONDITIONS)}")


def met(condition: AlertCondition, reading: JobReading) -> str:
    """Return how the job meets the condition, as a phrase after the job's name; "" if it does not.

    A value that the service does not report meets no condition.
    """
    job = reading.job
    if condition.name in _ENDS:
        return job.state.phrase if job.state in _ENDS[condition.name] else ""
    if condition.name == "restarting":
        return job.state.phrase if job.state is JobState.RESTARTING else ""
    if job.state.terminal:
        return ""
    if condition.name == "waiting":
        return _longer("has waited", job.wait(reading.at) if job.waits else None, condition.limit)
    if condition.name == "running":
        return _longer("has run", job.duration(reading.at), condition.limit)
    if condition.name == "silent":
        # A log that can't be read tells no longer silence.
        silence, at = job.silence, reading.progress_at
        if silence is None or at is None or (at - silence.since).total_seconds() < condition.limit:
            return ""
        return f"is silent: {silence_text(silence, at)}"
    if condition.name == "cost":
        spent = reading.spent
        return f"has cost ~${spent:,.2f}" if spent is not None and spent >= condition.limit else ""
    step = job.progress.step
    return f"has reached step {step:,}" if step is not None and step >= condition.limit else ""


def alert_key(condition: AlertCondition, job: Job) -> str:
    """Return a key that is the same for every reading of one occurrence, so that an alert is sent once.

    A job of the same name that was created later has another key, and so has each restart. All conditions on
    the end have one key, because a job ends once.
    """
    created = "" if job.create_time is None else job.create_time.isoformat()
    occurrence = ""
    if condition.name in _ENDS:
        return "\n".join((job.name, created, "end"))
    if condition.name == "silent" and job.silence is not None:
        occurrence = job.silence.since.isoformat()
    if condition.name == "restarting":
        moment = job.attempt_time or job.update_time
        occurrence = "" if moment is None else moment.isoformat()
    return "\n".join((job.name, created, str(condition), occurrence))


def _longer(phrase: str, span: timedelta | None, limit: float) -> str:
    return f"{phrase} {age(span)}" if span is not None and span.total_seconds() >= limit else ""


def _seconds(text: str) -> float:
    """Return a duration such as `1d12h` in seconds; 0 if the text is not a duration."""
    match = _DURATION.fullmatch(text)
    days, hours, minutes = (int(part or 0) for part in match.groups()) if match else (0, 0, 0)
    return timedelta(days=days, hours=hours, minutes=minutes).total_seconds()
