"""The create of a launch that may be interrupted: nobody is left without a word about the job."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from tui.backends.interface import BackendError, Interrupted, JobService, LaunchRequest
from tui.domain.core.job import Job
from tui.domain.core.text import plain

INTERRUPT_SECONDS = 5.0
"""Seconds after an interrupt that the reply is waited for and the job is looked for."""
_LOOK_EVERY = 0.5


@dataclass(frozen=True, slots=True)
class SentLaunch:
    """A launch whose request went out: from then on its job may exist."""

    name: str
    label: str
    """The label by which the job is found."""
    look_first: str
    """What to do while nobody knows whether the job exists."""


def sent_launch(request: LaunchRequest) -> SentLaunch:
    """The message after a request was sent."""
    name = plain(request.title or str(request.resource.get("displayName", "the job")))
    return SentLaunch(name, request.label, request.look_first)


async def create(
    service: JobService, request: LaunchRequest, on_interrupt: Callable[[], None] = lambda: None
) -> Job:
    """Create the job of `request`, which has a `mark`.

    A cancel of this task before the request is sent ends it at once. After that it calls `on_interrupt`,
    and waits for the reply or for a job with the launch's label; a job that is there by then is returned, and
    `asyncio.current_task().cancelling()` tells that the user gave up. A second cancel ends it at once.

    Raises:
        BackendError: of the create; Interrupted where nothing has told of the job in time.
        CancelledError: where nothing was sent, or for a second cancel.
    """
    sent = False

    def sending() -> None:
        nonlocal sent
        sent = True
        request.on_send()

    creating = asyncio.create_task(service.create(replace(request, on_send=sending)))
    try:
        return await asyncio.shield(creating)
    except asyncio.CancelledError:
        if not sent:
            raise
        on_interrupt()
        return await _after_interrupt(service, request, creating)
    finally:
        creating.cancel()


async def _after_interrupt(service: JobService, request: LaunchRequest, creating: asyncio.Task[Job]) -> Job:
    """The job, by the reply or by its label. Raises what the create raises, or Interrupted."""
    end = time.monotonic() + INTERRUPT_SECONDS
    seen = False
    while (left := end - time.monotonic()) > 0:
        await asyncio.wait({creating}, timeout=min(left, _LOOK_EVERY))
        if creating.done():
            return creating.result()
        try:
            async with asyncio.timeout(max(0.0, end - time.monotonic())):
                job = await service.launched(request)
        except (BackendError, TimeoutError):
            continue
        seen = True
        if job is not None:
            return job
    sent = sent_launch(request)
    existence = (
        f"no job with the label {sent.label} is there yet, but it may still appear"
        if seen
        else "whether the job exists is not known, as the service can't be asked now"
    )
    where = f" to {request.region}" if request.region else ""
    raise Interrupted(f"{sent.name} was sent{where} and no reply has come; {existence}.", fix=sent.look_first)
