"""Why a job waits, from its service, the quotas and the other jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable

from tui.backends.interface import Backend, BackendError
from tui.domain.attempts.milestones import Milestone, milestone_of
from tui.domain.core.job import Job
from tui.domain.core.log_entry import SERVICE
from tui.domain.core.quota import Quota
from tui.domain.core.states import JobState
from tui.domain.jobs.waiting import WaitContext, explained, waits
from tui.domain.resources.persistent import PersistentResource
from tui.domain.vertex.quota_fit import with_running
from tui.session import now


async def with_reasons(backend: Backend, job: Job) -> Job:
    """Return a waiting job with its reasons, and any other job unchanged. Unreadable sources are skipped."""
    if not waits(job):
        return job
    try:
        jobs = [listed async for page in backend.list_jobs() for listed in page.jobs]
    except BackendError:
        jobs = [job]
    around, milestones = await asyncio.gather(_surroundings(backend, jobs, [job]), _milestones(backend, job))
    return explained(job, WaitContext(around.jobs, around.quotas, around.resources, milestones), now())


async def all_with_reasons(backend: Backend, jobs: Collection[Job]) -> list[Job]:
    """Return all jobs of a list, the waiting jobs with their reasons."""
    waiting = [job for job in jobs if waits(job)]
    if not waiting:
        return list(jobs)
    around = await _surroundings(backend, jobs, waiting)
    return [explained(job, around, now()) for job in jobs]


async def _surroundings(backend: Backend, jobs: Collection[Job], waiting: Iterable[Job]) -> WaitContext:
    """Read the quotas if a job is queued, and persistent resources if they may matter."""
    names = {job.name for job in waiting} | {
        part for job in waiting for task in job.tasks for part in task.jobs
    }
    unstarted = [job for job in (*jobs, *waiting) if job.name in names]
    queued = any(job.state is JobState.QUEUED for job in unstarted)
    on_resource = any(job.persistent_resource for job in unstarted)

    async def quotas() -> list[Quota]:
        if not queued or not backend.offers("quotas"):
            return []
        return with_running(await backend.quotas.read(), [j for j in jobs if j.state.active], None)

    async def resources() -> list[PersistentResource] | None:
        if not (queued or on_resource) or not backend.offers("resources"):
            return None
        return list((await backend.resources.list_all()).items)

    quota, resource = await asyncio.gather(quotas(), resources(), return_exceptions=True)
    for read in (quota, resource):
        if isinstance(read, BaseException) and not isinstance(read, BackendError):
            raise read
    return WaitContext(
        jobs,
        () if isinstance(quota, BaseException) else quota,
        None if isinstance(resource, BaseException) else resource,
    )


async def _milestones(backend: Backend, job: Job) -> list[Milestone]:
    """Return the milestones from the service's messages about a pending job."""
    if job.state is not JobState.PENDING or not job.runner or not backend.offers("progress"):
        return []
    try:
        entries = await backend.progress.milestones(job.as_runner())
    except BackendError:
        return []
    milestones = [milestone_of(entry) for entry in entries if entry.replica == SERVICE]
    return [milestone for milestone in milestones if milestone is not None]
