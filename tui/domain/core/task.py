"""A part of a job that is, or has, a separate job. Examples are a pipeline's task, a tuning job's trial, and
the custom job of a training pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tui.domain.core.states import JobState


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file input or output of a task: a model, a data set or metrics."""

    uri: str
    type: str = ""
    """Title of the artifact's schema, e.g. `system.Model`; "" if the service does not report it."""
    name: str = ""
    metadata: Mapping[str, object] = field(default_factory=dict)

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of a metrics artifact; empty for any other artifact."""
        if not self.type.endswith("Metrics"):
            return {}
        return {
            name: float(value)
            for name, value in self.metadata.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }


@dataclass(frozen=True, slots=True)
class Task:
    """One task. Values that the service does not report are empty."""

    id: str
    """Id of the task, unique within the job."""
    state: JobState = JobState.UNKNOWN
    job: str = ""
    """Resource name of the job that runs the task; "" before the job exists."""
    name: str = ""
    """The task's display name; "" if the id is the display name."""
    parent: str = ""
    """Id of the parent task, e.g. a loop; "" for a task of the job itself."""
    group: bool = False
    """Whether the task only groups other tasks and runs nothing itself."""
    depends_on: tuple[str, ...] = ()
    """Ids of the tasks that end before this one starts."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    outputs: Mapping[str, object] = field(default_factory=dict)
    input_artifacts: Mapping[str, tuple[Artifact, ...]] = field(default_factory=dict)
    output_artifacts: Mapping[str, tuple[Artifact, ...]] = field(default_factory=dict)
    """Output artifacts by name; their URIs are also among the `outputs`."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    failed_jobs: tuple[str, ...] = ()
    """Names of the jobs of earlier attempts, the oldest first."""
    attempts: int | None = None
    """Number of starts; `None` if the service does not count them."""
    native_state: str = ""
    reason: str = ""
    """The reason for a failure."""
    step: int | None = None
    """Training step at which the metrics were measured."""
    start_time: datetime | None = None
    end_time: datetime | None = None

    @property
    def jobs(self) -> tuple[str, ...]:
        """Names of the jobs of all attempts of the task, the oldest first."""
        return (*self.failed_jobs, self.job) if self.job else self.failed_jobs

    def duration(self, now: datetime) -> timedelta | None:
        """Return the time since its start, up to its end or `now`; `None` before it started."""
        return None if self.start_time is None else (self.end_time or now) - self.start_time
