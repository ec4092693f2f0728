"""The diagnosis of a job and the next step, the same on the screen, in the verbs and in their JSON."""

from __future__ import annotations

from collections.abc import Iterable

from tui.domain.core.diagnosis import Diagnosis, diagnose
from tui.domain.core.job import Job, exit_codes, known_replicas
from tui.domain.core.replica import Replica
from tui.domain.core.states import JobState

LAST_LINES = 12
"""Number of last lines of the first failed replica that are searched for a cause."""
_NOTHING_TO_DO = frozenset({JobState.CANCELLED, JobState.SUCCEEDED, JobState.SKIPPED})


def diagnosis_of(job: Job, lines: Iterable[str] = (), *, whole: bool = False) -> Diagnosis | None:
    """The diagnosis of a job; `None` if its service reports no problem. `lines` are the last log lines of the
    replica that failed first; with `whole` they are its complete log."""
    if job.state in _NOTHING_TO_DO:
        return None
    if job.diagnosis is not None:
        return job.diagnosis
    if job.error is None:
        return None
    return diagnose(job.error.reason, lines, whole=whole, job=job.id, exception=job.error.exception)


def asks_the_log(job: Job) -> bool:
    """Whether the failed replica's lines may add to what the job's service reports."""
    return job.error is not None and job.diagnosis is None and job.state not in _NOTHING_TO_DO


def first_failed(job: Job) -> Replica | None:
    """The failed replica that the error names first, or any failed replica if it names none."""
    failed = {r.id: r for r in known_replicas(job) if r.state is JobState.FAILED}
    named = [replica for replica in exit_codes(job.error) if replica in failed]
    return failed[named[0]] if named else next(iter(failed.values()), None)
