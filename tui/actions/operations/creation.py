"""Create a job so that an interrupt always leaves the user with a statement about the job."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from tui.backends.interface import BackendError, Interrupted, JobService, LaunchRequest
from tui.domain.core.job import Job
from tui.domain.core.text import plain

INTERRUPT_SECONDS = 5.0
"""Seconds after an interrupt in which to wait for the reply and to search for the job."""
_LOOK_EVERY = 0.5


@dataclass(frozen=True, slots=True)
class SentLaunch:
    """A launch whose request was sent, so its job may exist."""

    name: str
    label: str
    """The label with which the job can be found."""
    look_first: str
    """The user's next step while it is unknown whether the job exists."""


def sent_launch(request: LaunchRequest) -> SentLaunch:
    """Return the message after a request was sent."""
    name = plain(request.title or str(request.resource.get("displayName", "the job")))
    return SentLaunch(name, request.label, request.look_first)


async def create(
    service: JobService, request: LaunchRequest, on_interrupt: Callable[[], None] = lambda: None
) -> Job:
    """Create the job of `request`, which has a `mark`.

    A cancel of this task before the request is sent ends it immediately. A later cancel calls `on_interrupt`,
    and waits for the reply or for a job with the launch's label. If the job appears in time, it is returned,
    and `asyncio.current_task().cancelling()` shows that the user cancelled. A second cancel ends the task at
    once.

    Raises:
        BackendError: of the create; Interrupted if the job's existence stays unknown.
        CancelledError: if no request was sent, or for a second cancel.
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
    """Find the job by the reply or by its label. Raises the error of the create request, or Interrupted."""
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
        f"no job with the label {sent.label} exists yet, but one may still appear"
        if seen
        else "whether the job exists is unknown, because the service does not answer now"
    )
    where = f" to {request.region}" if request.region else ""
    raise Interrupted(
        f"{sent.name} was sent{where}, but there is no reply yet; {existence}.", fix=sent.look_first
    )
