"""The request of a pipeline run: the pipeline, its output folder, and its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tui.domain.core.job import Job


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """The request of a pipeline job, without its graph. Unset values are empty."""

    pipeline: str = ""
    """Name of the compiled pipeline."""
    description: str = ""
    template: str = ""
    """URI of the run's template; "" if the request contains the pipeline itself."""
    root: str = ""
    """Folder in which the tasks of the run write their outputs."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    """Values set by the request; other parameters have the pipeline's defaults."""
    failure_policy: str = ""
    schedule: str = ""
    """Resource name of the schedule that started the run."""

    @property
    def on_failure(self) -> str:
        """The effect of a failed task on other tasks, as text."""
        if self.failure_policy.endswith("FAIL_FAST"):
            return "no further task starts"
        return "tasks that do not depend on it continue"


def run_of(job: Job | None) -> PipelineRun:
    """Return the run of a pipeline job; an empty run for other jobs."""
    return job.details if job is not None and isinstance(job.details, PipelineRun) else PipelineRun()
