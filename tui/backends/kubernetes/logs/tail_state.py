"""The phases of a followed log, the state of its job, and the tasks that read for the tail.

All times are in seconds of the event loop's clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any

from tui.backends.errors import BackendError, NotFound, QuotaExceeded, Unavailable
from tui.backends.kubernetes.job_pods import JobPods
from tui.backends.kubernetes.logs.job_watch import JobWatch
from tui.domain.core.job import Job
from tui.domain.core.log_entry import LogEntry

GIVE_UP = 180.0
"""Seconds without a watch of the pods after which the tail ends with the watch's error."""


@dataclass(frozen=True, slots=True)
class Collecting:
    """Pods, events and conditions are being read. Lines wait for them so that the log is in order."""

    since: float


@dataclass(frozen=True, slots=True)
class Following:
    """Lines are delivered as they arrive."""


@dataclass(frozen=True, slots=True)
class DrainingPods:
    """Every container has been read. The logs of replicas without pods are being read."""

    missing: asyncio.Task[None]


@dataclass(slots=True)
class JobPoll:
    """Reads the state and the conditions of a job repeatedly until the job has ended."""

    access: JobPods
    job: Job
    """The job as last read."""
    seconds: float
    """Interval between reads, in seconds."""
    clock: Callable[[], float]
    ended_at: float | None = None
    """Time at which the job was first seen to have ended."""
    conditions_read: bool = False

    async def run(self, watch: JobWatch, add: Callable[[Iterable[LogEntry]], None]) -> None:
        """Pass on the conditions until the job has ended and its last conditions were read."""
        if self.job.state.terminal:
            self.ended_at = self.clock()
        while True:
            ended = self.ended_at is not None
            try:
                add(await watch.job_entries())
                self.conditions_read = True
                self.job = await self.access.job(watch.job.name)
                if ended:
                    return
                if self.job.state.terminal:
                    self.ended_at = self.clock()
                    continue
            except NotFound:
                self.conditions_read = True
                self.ended_at = self.ended_at or self.clock()
                return
            except (Unavailable, QuotaExceeded):
                # The watch of the pods fails too, and measures the time of the outage.
                pass
            await asyncio.sleep(self.seconds)


@dataclass(slots=True)
class PodOutage:
    """Start of the time during which the pods can't be watched."""

    since: float | None = None

    def check(self, error: BackendError | None, now: float, *, closed: bool) -> None:
        """Raise the watch's error if the error is final or has lasted for `GIVE_UP` seconds."""
        if error is None:
            self.since = None
            return
        self.since = now if self.since is None else self.since
        if not isinstance(error, Unavailable) or closed or now - self.since > GIVE_UP:
            raise error


@dataclass(slots=True)
class ReaderTasks:
    """Tasks that read for a tail. The first error of any task is stored."""

    wake: Callable[[], None]
    """Callback that runs when a task ends."""
    error: BaseException | None = None
    _running: set[asyncio.Task[None]] = field(default_factory=set)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._finished)
        return task

    async def cancel(self) -> None:
        """Cancel the running tasks and wait for their end."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.error = self.error or error
        self.wake()
