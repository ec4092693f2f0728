"""The outcome of a job in the words of its attempts."""

from __future__ import annotations

from tui.domain.attempts.history import SUCCEEDED
from tui.domain.core.job import Job
from tui.domain.core.states import JobState


def outcome_of(job: Job) -> str:
    """Return `succeeded`, `failed: REASON` and so on; "" while the job runs."""
    if not job.state.terminal:
        return ""
    if job.state is JobState.SUCCEEDED:
        return SUCCEEDED
    state = job.state.value.lower()
    return f"{state}: {job.error.summary}" if job.error is not None else state
