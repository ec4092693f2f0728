"""The changes that a job's state allows, with one sentence for a key and a verb."""

from __future__ import annotations

from tui.domain.core.formatting import pieces
from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.domain.core.text import plain


def change_problem(change: str, job: Job) -> str:
    """Return why the job can't be changed now (`suspend`, `resume`, `scale`); "" if it can be changed."""
    name = plain(job.display_name)
    if change == "resume":
        waits = job.state in {JobState.SUSPENDED, JobState.QUEUED}
        return "" if waits else f"{name} {job.state.phrase}; only a suspended job can be resumed."
    if job.state.terminal or (change == "suspend" and job.state is JobState.SUSPENDED):
        return f"{name} {job.state.phrase} already."
    return _cannot_scale(job) if change == "scale" else ""


def scale_problem(job: Job, replicas: int) -> str:
    """Return why the job can't have this many workers now, as a sentence; "" if the number is allowed."""
    return change_problem("scale", job) or _cannot_scale(job, replicas)


def _cannot_scale(job: Job, replicas: int | None = None) -> str:
    from tui.domain.kubernetes.changes import job_scale_problem  # noqa: PLC0415  the first paint does not need it

    why = job_scale_problem(job, replicas)
    to = "" if replicas is None else f" to {pieces(replicas, 'worker')}"
    return f"Can't scale {plain(job.display_name)}{to}: {why}" if why else ""
