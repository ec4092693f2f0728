"""Reads a context periodically: all jobs, and the progress of running jobs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from tui.backends.errors import BackendError, Stopped
from tui.domain.core.job import Job
from tui.domain.core.states import AT_WORK
from tui.store.failures import broken
from tui.store.jobs.attempts import AttemptCounts
from tui.store.jobs.table import NOT_SAID, JobChange, JobStore

if TYPE_CHECKING:
    from tui.backends.interface import Backend

LOG = logging.getLogger(__name__)
HIDDEN_FACTOR = 6
"""Factor on the interval while the list is hidden."""
HURRIED, HURRY = 2.0, 20.0
"""Maximum interval after an operation of this console, and the duration of that limit, in seconds."""
REST = 4.0
"""Minimum ratio of the interval to the duration of the last read."""
QUIET = 4.0
"""Seconds between reads of this machine while no job is active, when only a launch can change the list."""
MOST_BACK_OFF = 30.0
WHOLE_LOCAL, WHOLE_CLOUD = 15.0, 300.0
"""Seconds after which all jobs are listed again, to find deletions by other programs."""
WHOLE_REST = 100
"""Minimum ratio of the time until the next full listing to the duration of the last listing."""
PROGRESS_LOCAL, PROGRESS_CLOUD = 2.0, 15.0
"""Seconds between reads of the progress."""
PROGRESS_WAIT = 1.0
"""Seconds that a round waits for the progress, so that unreadable logs do not delay the list."""
A_FRAME = 0.03
"""Time in seconds within which a screen paints a change."""
FIRST_LOOK = 100
ENDED_AT_ONCE = 12
"""Number of ended jobs whose last progress is read in one round."""


class Poller:
    """One context's polling loop. `on_change` runs after each page, and `on_round` after all jobs have been
    read. A round that fails completely sets `error` and is retried with backoff. `kick` ends every wait at
    once."""

    def __init__(
        self,
        backend: Backend,
        store: JobStore,
        clock: Callable[[], datetime],
        *,
        on_change: Callable[[JobChange], None],
        on_round: Callable[[], Awaitable[None]],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set the backend. `clock` dates the reads; `monotonic` (s) schedules them."""
        self._backend = backend
        self._store = store
        self._clock = clock
        self._monotonic = monotonic
        self._on_change = on_change
        self._on_round = on_round
        self._kick = asyncio.Event()
        self._progress_due = 0.0
        self._progress: asyncio.Task[None] | None = None
        """A read of the progress that is still running."""
        self._requested: set[str] = set()
        self._failures = 0
        self._connect_first = False
        self._whole_due = 0.0
        """Monotonic time of the next full listing; 0 for now."""
        self._hurry_until = 0.0
        self._took = 0.0
        self.visible = True
        self.looked_at: Callable[[], Sequence[str]] | None = None
        """A function that returns the names of jobs on the screen. Progress of other ended jobs is not
        read."""
        self.error: BackendError | None = None
        self.failing_since: datetime | None = None
        self.progress_error: BackendError | None = None

    @cached_property
    def _attempts(self) -> AttemptCounts:
        return AttemptCounts(self._backend)

    @property
    def interval(self) -> float:
        """Return the number of seconds to wait before the next read."""
        info = self._backend.info
        usual = 1.0 if info.local or info.watched else 10.0
        if self._failures:
            return min(MOST_BACK_OFF, usual * 2 ** min(self._failures, 6))
        if info.local and not info.watched and self._at_rest():
            usual = QUIET
        usual = max(usual, REST * self._took)
        if self._monotonic() < self._hurry_until:
            return min(usual, HURRIED)
        return usual if self.visible else usual * HIDDEN_FACTOR

    def _at_rest(self) -> bool:
        return self._store.read_at is not None and not self._store.active

    def kick(self, *, hurry: bool = False, connect: bool = False) -> None:
        """Read now. With `hurry`, after an action, poll often for a while. With `connect`, list all jobs, and
        reconnect first if the listing fails or a member of a group is stopped. Reconnecting starts a stopped
        local service, so only a user's request may set `connect`."""
        if hurry:
            self._hurry_until = self._monotonic() + HURRY
        self._progress_due = 0.0
        if connect:
            self._whole_due = 0.0
        stopped = any(isinstance(region.error, Stopped) for region in self._store.regions.values())
        self._connect_first = self._connect_first or (connect and (self.error is not None or stopped))
        self._kick.set()

    async def run(self) -> None:
        """Read until cancelled."""
        try:
            while True:
                self._kick.clear()
                await self.read_once()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self.interval):
                        await self._kick.wait()
        finally:
            if self._progress is not None:
                self._progress.cancel()

    async def read_once(self) -> None:
        """Read all regions once, then the progress of running jobs if it is due. Most rounds read only jobs
        that may have changed; some rounds list all jobs."""
        whole = await self.read_jobs()
        await self._on_round()
        if whole:
            # Show the list before reading anything else.
            await asyncio.sleep(A_FRAME)
            await self._read_progress()

    async def read_jobs(self) -> bool:
        """Read the jobs. Return whether any region could be read."""
        self._store.begin()
        whole = self._monotonic() >= self._whole_due
        began = time.perf_counter()
        try:
            if self._connect_first:
                self._connect_first = False
                # Restart a local service and renew expired credentials.
                await self._backend.connect()
            async with aclosing(self._backend.list_jobs(changes=not whole)) as pages:
                async for page in pages:
                    self._tell(self._store.apply(page, self._clock()))
        except BackendError as error:
            self._failed(error)
            return False
        except Exception as error:
            # A bug in one read must not end the connection, because the next read may work.
            LOG.exception("listing the jobs of %s failed", self._backend.info.name)
            self._failed(broken(error))
            return False
        self._took = time.perf_counter() - began
        self._tell(self._store.finish(self._clock(), complete=whole))
        if not self._store.reached:
            self._failed(next(s.error for s in self._store.regions.values() if s.error))
            return False
        self.error, self.failing_since, self._failures = None, None, 0
        if whole:
            # A service that sends changes sends deletions too.
            info = self._backend.info
            usual = WHOLE_LOCAL if info.local and not info.watched else WHOLE_CLOUD
            self._whole_due = self._monotonic() + max(usual, WHOLE_REST * self._took)
        return True

    def _failed(self, error: BackendError) -> None:
        self._failures += 1
        # A poll may miss changes since the failure; the service may even have been replaced.
        self._whole_due = 0.0
        self.error = error
        self.failing_since = self.failing_since or self._clock()

    def _tell(self, change: JobChange) -> None:
        if change:
            self._on_change(change)
        for job in change.ended:
            self._requested.discard(job.name)

    def _due(self, now: datetime) -> list[Job]:
        """Return the jobs whose progress is due: running jobs, and each ended job without progress once."""
        if self._monotonic() < self._progress_due:
            return []
        running = [job for job in self._store.active.values() if job.state in AT_WORK and job.runs_itself]
        jobs = self._looked_at()
        ended = [
            job
            for job in jobs
            if job.state.terminal and job.start_time and job.runs_itself and job.name not in self._requested
        ]
        # A cloud project has 60 log reads a minute. Progress of ended jobs is read only if they ran while the
        # console was open, or on this machine.
        ended = [j for j in ended if j.progress != NOT_SAID or self._backend.runs_here(j.name)]
        ended.sort(key=lambda job: job.end_time or now, reverse=True)
        self._requested.update(job.name for job in ended[:ENDED_AT_ONCE])
        return running + ended[:ENDED_AT_ONCE]

    def _looked_at(self) -> Iterable[Job]:
        jobs = self._store.jobs
        names = self.looked_at() if self.looked_at is not None else ()
        # Before the first paint nothing is visible; the newest jobs will be.
        return [jobs[name] for name in names if name in jobs] or list(islice(jobs.values(), FIRST_LOOK))

    async def _read_progress(self) -> None:
        """Read the progress that is due, or wait briefly for the read that an earlier round began."""
        if self._progress is None:
            due = self._due(self._clock())
            if not due or not self._backend.offers("progress"):
                return
            every = PROGRESS_LOCAL if self._backend.info.local else PROGRESS_CLOUD
            self._progress_due = self._monotonic() + every
            self._progress = asyncio.create_task(self._progress_of(due), name="progress of jobs")
        done, _ = await asyncio.wait({self._progress}, timeout=PROGRESS_WAIT)
        for task in done:
            self._progress = None
            task.result()

    async def _progress_of(self, due: Sequence[Job]) -> None:
        began = self._clock()
        try:
            progress = await self._attempts.add(due, await self._backend.progress.read(due))
        except BackendError as error:
            self.progress_error = error
            return
        self.progress_error, self._store.progress_at = None, began
        self._tell(self._store.set_progress(progress))
