"""A part of a job that is, or has, a job of its own.

A pipeline's task, a trial of a tuning job, the custom job of a training pipeline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tui.domain.core.states import JobState


@dataclass(frozen=True, slots=True)
class Artifact:
    """What a task reads or writes as files: a model, a data set, metrics."""

    uri: str
    type: str = ""
    """Title of its schema, e.g. `system.Model`; "" where the service does not say."""
    name: str = ""
    metadata: Mapping[str, object] = field(default_factory=dict)

    @property
    def metrics(self) -> dict[str, float]:
        """Its figures, where it is one of metrics."""
        if not self.type.endswith("Metrics"):
            return {}
        return {
            name: float(value)
            for name, value in self.metadata.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }


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
    input_artifacts: Mapping[str, tuple[Artifact, ...]] = field(default_factory=dict)
    output_artifacts: Mapping[str, tuple[Artifact, ...]] = field(default_factory=dict)
    """Their URIs are among the `outputs` too."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    failed_jobs: tuple[str, ...] = ()
    """Names of the jobs of earlier attempts, the oldest first."""
    attempts: int | None = None
    """How often it was started; `None` where the service does not count."""
    native_state: str = ""
    reason: str = ""
    """Why it failed."""
    step: int | None = None
    """Training step of its metrics."""
    start_time: datetime | None = None
    end_time: datetime | None = None

    @property
    def jobs(self) -> tuple[str, ...]:
        """Names of the jobs of all its attempts, the oldest first."""
        return (*self.failed_jobs, self.job) if self.job else self.failed_jobs

    def duration(self, now: datetime) -> timedelta | None:
        """Time since its start, up to its end or `now`; `None` before it started."""
        return None if self.start_time is None else (self.end_time or now) - self.start_time
