"""The attempts of jobs, read from their logs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tui.backends.errors import BackendError
from tui.domain.core.job import Job
from tui.domain.core.training_progress import Progress

if TYPE_CHECKING:
    from tui.backends.interface import Backend
    from tui.domain.attempts.history import AttemptHistory

MOST_AT_ONCE = 4
"""Number of jobs whose attempts are read in one round."""


async def read_attempts(backend: Backend, job: Job) -> AttemptHistory | None:
    """Return the attempts of a job, or `None` if its log does not exist or can't be read."""
    # The first paint needs none of these.
    from tui.domain.attempts.history import attempts_of  # noqa: PLC0415
    from tui.domain.attempts.milestones import milestone_of  # noqa: PLC0415
    from tui.domain.attempts.outcome import outcome_of  # noqa: PLC0415

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


@dataclass(slots=True)
class _Counted:
    """A restarted job: its last reported step, the signs of its restarts, and its attempts as of a read."""

    step: int = 0
    went_back: int = 0
    """Number of times that the reported step was lower than before."""
    signs: tuple[object, ...] = ()
    read: tuple[object, ...] = ()
    """Signs as of the last read."""
    attempt: int | None = None
    lost_steps: int = 0


class AttemptCounts:
    """Adds the attempt and the lost steps to the progress of restarted jobs; each restart is read once."""

    def __init__(self, backend: Backend, most_at_once: int = MOST_AT_ONCE) -> None:
        self._backend = backend
        self._most_at_once = most_at_once
        self._jobs: dict[str, _Counted] = {}

    async def add(self, jobs: Sequence[Job], read: Mapping[str, Progress]) -> dict[str, Progress]:
        """Return the progress that was read of these jobs, with the attempts of restarted jobs."""
        known = [(job, read[job.name]) for job in jobs if job.name in read]
        due = [job for job, progress in known if self._is_due(job, progress)][: self._most_at_once]
        await asyncio.gather(*(self._read(job) for job in due))
        counted = {job.name: self._jobs.get(job.name, _Counted()) for job, _ in known}
        return {
            name: replace(progress, attempt=counted[name].attempt, lost_steps=counted[name].lost_steps)
            if name in counted and counted[name].attempt
            else progress
            for name, progress in read.items()
        }

    def _is_due(self, job: Job, progress: Progress) -> bool:
        """Record the signs of a restart; return whether they are new."""
        step = progress.step or 0
        counted = self._jobs.setdefault(job.name, _Counted())
        counted.went_back += step < counted.step
        counted.step = step
        restarts = sum(replica.restarts or 0 for replica in job.replicas)
        if not any((progress.resumed_from is not None, restarts, job.attempt_time, counted.went_back)):
            return False
        counted.signs = progress.resumed_from, restarts, job.attempt_time, counted.went_back, job.update_time
        return counted.signs != counted.read

    async def _read(self, job: Job) -> None:
        counted = self._jobs[job.name]
        counted.read = counted.signs
        history = await read_attempts(self._backend, job)
        if history is not None and len(history.attempts) > 1:
            counted.attempt, counted.lost_steps = len(history.attempts), history.lost_steps
