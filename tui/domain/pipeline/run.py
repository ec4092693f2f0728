"""What one run of a pipeline was given: the pipeline, where it writes, its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tui.domain.core.job import Job


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """The request of a pipeline job, without its graph. What was not given is empty."""

    pipeline: str = ""
    """Name of the compiled pipeline."""
    description: str = ""
    template: str = ""
    """URI of the template that it was read from; "" where the request held the pipeline itself."""
    root: str = ""
    """Folder below which its tasks write."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    """What was given; a parameter that is not here has the pipeline's default."""
    failure_policy: str = ""
    schedule: str = ""
    """Resource name of the schedule that started it."""

    @property
    def on_failure(self) -> str:
        """What a failed task does to the others, in words."""
        if self.failure_policy.endswith("FAIL_FAST"):
            return "no further task starts"
        return "tasks that do not need it go on"


def run_of(job: Job | None) -> PipelineRun:
    """The run of a pipeline job; an empty one of any other job."""
    return job.details if job is not None and isinstance(job.details, PipelineRun) else PipelineRun()
