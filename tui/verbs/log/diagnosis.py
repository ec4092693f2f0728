"""The diagnosis of a job from its service and from the log of every replica."""

from __future__ import annotations

from tui.backends.interface import Backend, BackendError, LogQuery
from tui.domain.core.diagnosis import Diagnosis
from tui.domain.core.job import Job
from tui.domain.core.log_entry import LogEntry
from tui.domain.diagnosis.decide import decide
from tui.domain.diagnosis.line import LogLine
from tui.domain.diagnosis.platform import with_message
from tui.domain.diagnosis.reader import Reader
from tui.domain.diagnosis.rules import Rules, shipped_rules
from tui.domain.diagnosis.verdict import Verdict
from tui.domain.jobs.diagnosis import asks_the_log, diagnosis_of
from tui.domain.jobs.facts import facts_of, log_line
from tui.verbs.log.waiting import with_reasons
from tui.verbs.run import Run, find_job

MOST_READ = 40_000
"""Number of last entries of a log that are read."""
MOST_START = 4_000
"""Number of first entries that are read of a longer log."""


async def verdict_of_reference(run: Run, reference: str, rules: Rules) -> Verdict:
    """Return why the job with this id or name failed."""
    async with run.backend() as backend:
        listed = await find_job(backend, reference)
        job = await with_reasons(backend, await backend.job_service(listed.name).get(listed.name))
        return waiting_verdict(job) or await verdict_of(backend, job, rules)


def waiting_verdict(job: Job) -> Verdict | None:
    """Return the reasons of a job that waits, in which nothing failed; `None` for any other job."""
    if not job.waiting or not job.state.active:
        return None
    step = job.diagnosis.fix if job.diagnosis is not None else ""
    return Verdict(" ".join(job.waiting), "none", next=step, confidence=1.0)


async def verdict_of(backend: Backend, job: Job, rules: Rules) -> Verdict:
    """Return why a job failed, from its service and the log of every replica."""
    facts = facts_of(job)
    reader = Reader(rules)
    if job.logged_as and asks_the_log(job):
        try:
            reader.read(await _lines(backend, job))
        except BackendError:
            # The service's own error is known.
            reader = Reader(rules)
    return decide(with_message(reader, facts), facts, rules)


async def _lines(backend: Backend, job: Job) -> list[LogLine]:
    """Return the end of a log, and the start of a long one. Raises BackendError."""
    created = job.create_time if job.logged_as == job.name else None
    query = LogQuery(job.logged_as, include_service=False, created=created, tasks=job.composite)
    entries: dict[tuple[object, ...], LogEntry] = {}
    for newest, limit in ((True, MOST_READ), (False, MOST_START)):
        async for batch in backend.logs.read(query, newest_first=newest, limit=limit):
            entries |= {entry.key: entry for entry in batch.entries if isinstance(entry, LogEntry)}
        if len(entries) < MOST_READ:
            break
    ordered = sorted(entries.values(), key=lambda entry: entry.key)
    return [log_line(index, entry) for index, entry in enumerate(ordered)]


async def read_diagnosis(backend: Backend, job: Job) -> Diagnosis | None:
    """Return the diagnosis that the job's screen shows. The log is read if it may add information."""
    if not asks_the_log(job) or not job.runner:
        return diagnosis_of(job)
    return diagnosis_of(job, await verdict_of(backend, job, shipped_rules()))
