"""The diagnosis of a job from its service and from the log of every replica."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime

from tui.backends.interface import Backend, BackendError
from tui.config.paths import state_dir
from tui.domain.core.diagnosis import Diagnosis
from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.domain.diagnosis.line import LogLine
from tui.domain.diagnosis.novelty import Novelty
from tui.domain.diagnosis.rules import Rules, shipped_rules
from tui.domain.diagnosis.verdict import Verdict
from tui.domain.jobs.diagnosis import asks_the_log, diagnosis_of
from tui.store.job.log_verdict import in_parts, judge, read_lines
from tui.store.jobs.causes import causes_in, is_settled
from tui.verbs.log.waiting import with_reasons
from tui.verbs.run import Run, find_job


async def verdict_of_reference(
    run: Run, reference: str, rules: Rules, good: Collection[str] | None = None
) -> Verdict:
    """Return why the job with this id or name failed. `good` has the templates of a run that succeeded; by
    default those of the last job of the same name that succeeded."""
    async with run.backend() as backend:
        listed = await find_job(backend, reference)
        job = await with_reasons(backend, await backend.job_service(listed.name).get(listed.name))
        if (waiting := waiting_verdict(job)) is not None:
            return waiting
        if good is None:
            good = await good_templates(backend, job)
        return await verdict_of(backend, job, rules, good)


def waiting_verdict(job: Job) -> Verdict | None:
    """Return the reasons of a job that waits, in which nothing failed; `None` for any other job."""
    if not job.waiting or not job.state.active:
        return None
    step = job.diagnosis.fix if job.diagnosis is not None else ""
    return Verdict(" ".join(job.waiting), "none", next=step, confidence=1.0)


async def good_templates(backend: Backend, job: Job) -> set[str]:
    """Return the templates of the log of the last job of the same name that succeeded, none without one."""
    novelty = Novelty()
    with suppress(BackendError):
        same = [
            other
            for other in await backend.find_jobs(job.display_name)
            if other.state is JobState.SUCCEEDED and other.kind == job.kind and other.logged_as
        ]
        if same:
            last = max(same, key=lambda other: other.end_time or datetime.min.replace(tzinfo=UTC))
            novelty.read(await read_lines(backend, last))
    return novelty.templates()


async def verdict_of(backend: Backend, job: Job, rules: Rules, good: Collection[str] = ()) -> Verdict:
    """Return why a job failed, from its service and the log of every replica. `good` has the templates of a
    run that succeeded."""
    lines = await _lines(backend, job)
    return await judge(job, in_parts(lines), rules, good, local=backend.info.local)


async def _lines(backend: Backend, job: Job) -> list[LogLine]:
    """Return the lines of a failed job's log. Without a readable log the service's own error is known."""
    if job.logged_as and asks_the_log(job):
        with suppress(BackendError):
            return await read_lines(backend, job)
    return []


async def read_diagnosis(backend: Backend, job: Job) -> Diagnosis | None:
    """Return the diagnosis that the job's screen shows, and store it for lists. The log is read if it may add
    information."""
    if not asks_the_log(job) or not job.logged_as:
        return diagnosis_of(job)
    local, lines = backend.info.local, await _lines(backend, job)
    diagnosis = diagnosis_of(job, await judge(job, in_parts(lines), shipped_rules(), local=local))
    if diagnosis is not None and lines:
        read = len(lines) if is_settled(job, datetime.now(UTC), local=local) else 0
        await asyncio.to_thread(causes_in(state_dir()).save, job, diagnosis, read)
    return diagnosis
