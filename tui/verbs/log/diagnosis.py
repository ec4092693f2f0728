"""The diagnosis of a job from its service and from the last lines of the failed replica."""

from __future__ import annotations

from tui.backends.interface import Backend, BackendError, LogQuery
from tui.domain.core.diagnosis import Diagnosis
from tui.domain.core.job import Job
from tui.domain.core.log_entry import LogEntry
from tui.domain.jobs.diagnosis import LAST_LINES, asks_the_log, diagnosis_of, first_failed


async def read_diagnosis(backend: Backend, job: Job) -> Diagnosis | None:
    """Return the diagnosis that the job's screen shows. The log is read if it may add information."""
    failed = first_failed(job) if asks_the_log(job) else None
    if failed is None or not job.runner:
        return diagnosis_of(job)
    query = LogQuery(job.runner, (failed.id,), include_service=False, created=job.create_time)
    lines: list[str] = []
    try:
        async for batch in backend.logs.read(query, newest_first=True, limit=LAST_LINES):
            lines += [entry.message for entry in batch.entries if isinstance(entry, LogEntry)]
    except BackendError:
        # The service's own error is known.
        return diagnosis_of(job)
    return diagnosis_of(job, lines, whole=not lines)
