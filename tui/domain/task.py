"""A part of a job that is, or has, a job of its own.

A pipeline's task, a trial of a tuning job, the custom job of a training pipeline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tui.domain.states import JobState


@dataclass(frozen=True, slots=True)
class Task:
    """One task. What the service does not say is empty."""

    id: str
    """Unique within its job."""
    state: JobState = JobState.UNKNOWN
    job: str = ""
    """Resource name of the job that runs it; "" before it has one."""
    name: str = ""
    """What a person calls it; "" where that is its id."""
    parent: str = ""
    """Id of the task that it is a part of, as in a loop; "" for one of the job itself."""
    group: bool = False
    """It runs nothing itself: its parts do."""
    depends_on: tuple[str, ...] = ()
    """Ids of the tasks that end before this one starts."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    outputs: Mapping[str, object] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    attempts: int | None = None
    """How often it was started; `None` where the service does not count."""
    native_state: str = ""
    reason: str = ""
    """Why it failed."""
    step: int | None = None
    """Training step of its metrics."""
    start_time: datetime | None = None
    end_time: datetime | None = None

    def duration(self, now: datetime) -> timedelta | None:
        """Time since its start, up to its end or `now`; `None` before it started."""
        return None if self.start_time is None else (self.end_time or now) - self.start_time
