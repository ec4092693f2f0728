"""Reasons why jobs of the open context wait. The quotas are read in the background while a job is queued."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol

from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.screens.console.standing_costs import Console, StandingCosts, Worker
from tui.session import BackendError, Session

if TYPE_CHECKING:
    from tui.domain.attempts.milestones import Milestone
    from tui.domain.core.quota import Quota
    from tui.store.jobs.table import JobStore

EVERY = (60.0, 5.0)
"""Seconds between reads of a context's quotas in the cloud, and of the emulator's."""
_UNSTARTED = frozenset({JobState.QUEUED, JobState.PENDING})


class StoringConsole(Console, Protocol):
    """The part of the app that the reasons need."""

    clock: Callable[[], datetime]
    standing: StandingCosts

    @property
    def store(self) -> JobStore: ...


class WaitReasons:
    """The quotas of the open context, and the reasons derived from them."""

    def __init__(self, console: StoringConsole, worker: Worker) -> None:
        self._console = console
        self._worker = worker
        self._session: Session | None = None
        self._next = 0.0
        self._reading = False
        self._quotas: Sequence[Quota] = ()

    def tick(self) -> None:
        """Read the quotas in the background if a job is queued and a read is due."""
        session = self._console.session
        if session is not self._session:
            self._session, self._next, self._quotas = session, 0.0, ()
        due = session is not None and not self._reading and time.monotonic() >= self._next
        if due and any(job.state is JobState.QUEUED for job in self._console.store.active.values()):
            assert session is not None
            self._reading = session.backend.offers("quotas")
            if self._reading:
                self._worker(partial(self._read, session))

    async def _read(self, session: Session) -> None:
        from tui.domain.vertex.quota_fit import with_running  # noqa: PLC0415 - not before the first paint

        try:
            quotas = await session.backend.quotas.read()
            if session is self._session:
                self._quotas = with_running(quotas, self._console.store.active.values(), None)
        except BackendError:
            # The Quotas screen shows the error; here the last known quotas remain.
            pass
        finally:
            self._reading = False
            self._next = time.monotonic() + EVERY[session.backend.info.local]

    def listed(self, job: Job) -> Job:
        """Return a job of the list with the short form of its reasons, without a search of all jobs. A job of
        the snapshot has no current reasons."""
        if self._console.session is None or job.state not in _UNSTARTED or job.in_cluster:
            return job
        jobs = self._console.store.jobs
        return self._explained(job, [jobs[task.job] for task in job.tasks if task.job in jobs])

    def explained(self, job: Job, milestones: Sequence[Milestone] = ()) -> Job:
        """Return a waiting job with all its reasons. `milestones` come from its service's messages."""
        return self._explained(job, self._console.store.jobs.values(), milestones)

    def _explained(self, job: Job, jobs: Collection[Job], milestones: Sequence[Milestone] = ()) -> Job:
        from tui.domain.jobs.waiting import WaitContext, explained  # noqa: PLC0415 - not before the first paint

        console = self._console
        around = WaitContext(jobs, self._quotas, console.standing.resources or None, milestones)
        return explained(job, around, console.clock())
