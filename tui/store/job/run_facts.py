"""Read the facts by which runs are compared: the job, its specification and its progress."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tui.domain.comparison.runs import RunFacts
from tui.domain.core.job import Job
from tui.domain.core.training_progress import Progress
from tui.kinds.kind import resolve
from tui.kinds.registry import kind_of

if TYPE_CHECKING:
    from tui.backends.interface import Backend

SECONDS = 60.0


async def read_facts(backend: Backend, name: str) -> tuple[Job, RunFacts]:
    """Read the current job and the facts that are compared.

    Raises:
        BackendError: the job can't be read.
        TimeoutError: the read exceeds `SECONDS`.
    """
    async with asyncio.timeout(SECONDS):
        service = backend.job_service(name)
        job, resource = await asyncio.gather(service.get(name), service.spec(name))
        if job.runner and not job.composite:
            read = await backend.progress.read([job.as_runner()])
            job = replace(job, progress=read.get(job.runner, Progress()))
    facts: Callable[[Job, Mapping[str, Any]], RunFacts] = resolve(kind_of(job).compared)
    return job, facts(job, resource)
