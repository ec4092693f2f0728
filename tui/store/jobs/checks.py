"""Checks of a launch for screens and verbs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from typing import Any

from tui.backends.errors import BackendError
from tui.backends.interface import Backend
from tui.domain.core.job import Job
from tui.domain.vertex.preflight import Check, unknown


async def active_jobs(backend: Backend) -> list[Job]:
    """Return the active jobs of the regions that can be read. Raises BackendError."""
    return [job async for page in backend.list_jobs() for job in page.jobs if job.state.active]


async def preflight(
    backend: Backend, region: str, custom_job: Mapping[str, Any], known: Iterable[Job] | None = None
) -> AsyncGenerator[Check, None]:
    """Yield each check as soon as it is known. Closing the generator stops the remaining checks. The
    generator never raises.

    `known` are the active jobs if the caller has read them; otherwise they are listed. For a context without
    checks, one check reports their absence.
    """

    async def running() -> Iterable[Job]:
        return await active_jobs(backend) if known is None else known

    try:
        checks = backend.preflight.run(region, custom_job, running)
    except BackendError as error:
        yield unknown("service", error.message, error.fix)
        return
    async with aclosing(checks) as results:
        async for check in results:
            yield check
