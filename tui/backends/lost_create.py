"""A create whose reply was lost or tells nothing: its job is looked for by its label, never created again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

from tui.backends.errors import BackendError, Unavailable
from tui.backends.interface import LaunchRequest
from tui.domain.core.job import Job
from tui.domain.core.text import sentences

LOOK_AGAIN = (0.5, 1.0, 2.0, 4.0)
"""Seconds between the looks for a job whose create got no reply; the first is at once."""
LOOK_SECONDS = 10.0
"""Seconds that all looks take together at most."""


async def created_job(
    request: LaunchRequest,
    lost: BackendError,
    launched: Callable[[LaunchRequest], Awaitable[Job | None]],
    service: str,
    *,
    waits: Sequence[float],
    refused: bool = False,
) -> Job:
    """The job of a create that ended with `lost`.

    `launched` finds the job with the request's label; `waits` are the seconds between the looks. With
    `refused` the error stands where no such job is there.

    Raises:
        Unavailable: saying what is known about it.
    """
    seen = False
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LOOK_SECONDS):
            for seconds in (0.0, *waits):
                await asyncio.sleep(seconds)
                try:
                    found = await launched(request)
                except BackendError:
                    continue
                seen = True
                if found is not None:
                    return found
    if seen and refused:
        raise lost
    if seen:
        said = f"No job with the label {request.label} is there: most likely nothing was created."
    else:
        said = f"Whether the job exists is not known: the {service} can't be asked now."
    raise Unavailable(sentences(lost.message, said), fix=request.look_first) from lost
