"""The attempts of a job, read from its log."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from tui.backends.interface import Backend, BackendError
from tui.domain.attempts.history import AttemptHistory, attempts_of
from tui.domain.attempts.milestones import milestone_of
from tui.domain.attempts.outcome import outcome_of
from tui.domain.core.job import Job


async def read_attempts(backend: Backend, job: Job) -> AttemptHistory | None:
    """Return the attempts of a job, or `None` if its log does not exist or can't be read."""
    if job.create_time is None or not job.runner or job.composite or not backend.offers("progress"):
        return None
    try:
        steps, entries = await asyncio.gather(
            backend.progress.training_steps(job.runner, job.create_time),
            backend.progress.milestones(job.as_runner()),
        )
    except BackendError:
        # The progress is read too, and reports the error.
        return None
    milestones = [milestone for entry in entries if (milestone := milestone_of(entry)) is not None]
    return attempts_of(
        job.create_time, job.end_time, datetime.now(UTC), milestones, steps, outcome=outcome_of(job)
    )
