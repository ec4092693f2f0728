"""Finds, by its label, the job of a create request whose reply was lost. The request is never repeated."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

from tui.backends.errors import BackendError, Unavailable
from tui.backends.interface import LaunchRequest
from tui.domain.core.job import Job
from tui.domain.core.text import sentences

LOOK_AGAIN = (0.5, 1.0, 2.0, 4.0)
"""Seconds between searches for a job after a lost reply. The first search is immediate."""
LOOK_SECONDS = 10.0
"""Maximum total time of all searches, in seconds."""


async def created_job(
    request: LaunchRequest,
    lost: BackendError,
    launched: Callable[[LaunchRequest], Awaitable[Job | None]],
    service: str,
    *,
    waits: Sequence[float],
    refused: bool = False,
) -> Job:
    """Return the job of a create request that failed with `lost`.

    `launched` finds the job with the request's label. `waits` are the seconds between searches. If `refused`,
    `lost` is raised unless a job has the label.

    Raises:
        Unavailable: no job has the label; the message describes the known state.
    """
    seen = False
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LOOK_SECONDS):
            for seconds in (0.0, *waits):
                await asyncio.sleep(seconds)
                try:
                    job = await launched(request)
                except BackendError:
                    continue
                seen = True
                if job is not None:
                    return job
    if seen and refused:
        raise lost
    if seen:
        outlook = f"No job with the label {request.label} exists: most likely nothing was created."
    else:
        outlook = f"It is unknown whether the job exists: the {service} can't be queried now."
    raise Unavailable(sentences(lost.message, outlook), fix=request.look_first) from lost
