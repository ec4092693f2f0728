"""What a job's state allows to be changed: one sentence for a key and a verb."""

from __future__ import annotations

from tui.domain.job import Job
from tui.domain.states import JobState
from tui.domain.text import plain


def change_problem(change: str, job: Job) -> str:
    """Why the job can't be changed so now, of `suspend`, `resume` and `scale`; "" where it can."""
    name = plain(job.display_name)
    if change == "resume":
        waits = job.state in {JobState.SUSPENDED, JobState.QUEUED}
        return "" if waits else f"{name} {job.state.phrase}; only a suspended job is resumed."
    ended = job.state.terminal or (change == "suspend" and job.state is JobState.SUSPENDED)
    return f"{name} {job.state.phrase} already." if ended else ""
