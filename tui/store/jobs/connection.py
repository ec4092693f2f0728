"""One open context: its backend, jobs, connection status and snapshot on disk."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from tui.backends.errors import BackendError
from tui.config.access import ContextAccess
from tui.config.settings import Context, Settings
from tui.domain.core.job import Job
from tui.session import Session
from tui.store.failures import broken
from tui.store.jobs.connection_state import ConnectionState, ConnectionStatus
from tui.store.jobs.region_errors import region_errors
from tui.store.jobs.snapshot import Snapshot, SnapshotFile
from tui.store.jobs.table import JobChange, JobStore
from tui.store.journal import Journal

if TYPE_CHECKING:
    from tui.backends.interface import Backend
    from tui.domain.profile.model import Request
    from tui.domain.vertex.preflight import Check
    from tui.store.jobs.poller import Poller

LOG = logging.getLogger("vxtui")
SNAPSHOT_EVERY = 10.0
"""Seconds between writes of the snapshot."""

Opener = Callable[[Context, Settings], "Backend"]


class Connection:
    """One context's connection. Run `run` in the background; `on_jobs` and `on_status` report changes."""

    def __init__(
        self,
        context: Context,
        settings: Settings,
        *,
        opener: Opener,
        state_dir: Path,
        journal: Journal,
        clock: Callable[[], datetime],
        access: ContextAccess,
        on_jobs: Callable[[JobChange], None],
        on_status: Callable[[ConnectionStatus], None],
        monotonic: Callable[[], float] = monotonic,
    ) -> None:
        self.context = context
        self.settings = settings
        self.access = access
        self.clock = clock
        self.journal = journal
        self.store = JobStore()
        self.status = ConnectionStatus()
        self.session: Session | None = None
        self.poller: Poller | None = None
        self._opener = opener
        self._file = SnapshotFile(state_dir, context.name)
        self._on_jobs = on_jobs
        self._on_connection = on_status
        self._snapshot_at: datetime | None = None
        self._save_at: float | None = None
        """Monotonic time at which the next snapshot is due; `None` before the first round."""
        self._monotonic = monotonic
        self._running = 0
        self._seen = True
        self.looked_at: Callable[[], Sequence[str]] | None = None
        """A function that returns the names of the jobs on the screen."""
        self._idle = asyncio.Event()
        self._idle.set()

    # State

    @property
    def regions(self) -> Sequence[str]:
        """Regions of this context, as the open backend reports them or else as configured."""
        return self.session.backend.info.regions if self.session else tuple(self.context.regions)

    @property
    def home_region(self) -> str:
        """Region of a resource that names none; "" in a group of contexts."""
        return "" if self.context.kind == "group" else self.regions[0]

    @property
    def read_at(self) -> datetime | None:
        """Time at which the shown jobs were read, in this run or before the snapshot was written."""
        return self.store.read_at or self._snapshot_at

    def as_of(self, job: Job) -> datetime:
        """Return the time of a job's figures: now, or the last read if the job can't be read now."""
        now = self.clock()
        if self.status.state is not ConnectionState.LIVE:
            # Neither a snapshot nor a list before the first reply describes the present state.
            return self.read_at or now
        unread = self._snapshot_at if job.name in self.store.unconfirmed else None
        return self.store.read_at_of(job) or unread or now

    @property
    def unreached(self) -> tuple[int, int]:
        """The number of regions that can't be read now, and the number of all regions."""
        statuses = self.store.regions.values()
        return sum(status.error is not None for status in statuses), len(statuses)

    def failing(self) -> list[tuple[str, BackendError]]:
        """Return every source that can't be read now, with its error."""
        failures = [(self.context.name, self.status.error)] if self.status.error else []
        failures += [(group.names, group.error) for group in region_errors(self.store.regions.values())]
        if self.poller is not None and self.poller.progress_error is not None:
            failures.append(("training progress", self.poller.progress_error))
        return failures

    def preflight(self, session: Session, request: Request) -> AsyncGenerator[Check, None]:
        """Yield the checks of a launch, which use the known active jobs instead of another list."""
        from tui.store.jobs.checks import preflight  # noqa: PLC0415 - not needed for the first paint

        active = tuple(self.store.active.values())
        return preflight(session.backend, request.region, request.custom_job, active)

    # Connecting

    def restore(self, snapshot: Snapshot | None) -> None:
        """Show the snapshot until the service answers."""
        if snapshot is not None:
            self._snapshot_at = snapshot.read_at
            self._on_jobs(self.store.load(snapshot.jobs))

    @property
    def taken_names(self) -> list[str]:
        """The names that a new job should avoid: names of listed jobs and of earlier launches."""
        here = {self.context.name, *self.context.members}
        return [*self.store.display_names, *self.journal.launched(here)]

    def load_snapshot(self) -> Snapshot | None:
        """Read the snapshot from disk (blocking)."""
        return self._file.load()

    async def run(self) -> None:
        """Connect and read until cancelled. If no connection is possible, report the reason and return."""
        self._running += 1
        self._idle.clear()
        self._tell(ConnectionStatus(ConnectionState.CONNECTING, self.clock()))
        backend: Backend | None = None
        try:
            await asyncio.to_thread(self.journal.read_launches)
            backend = await asyncio.to_thread(self._made)
            await backend.connect()
            self.session = Session(backend, self.settings, self.access, self.clock, self._monotonic)
            from tui.store.jobs.poller import Poller  # noqa: PLC0415 - not needed for the first paint

            self.poller = Poller(
                backend,
                self.store,
                self.clock,
                on_change=self._on_change,
                on_round=self._on_round,
                monotonic=self._monotonic,
            )
            self.poller.visible = self._seen
            self.poller.looked_at = lambda: self.looked_at() if self.looked_at is not None else ()
            await self.poller.run()
        except Exception as error:  # The console survives any failure of a connection.
            if not isinstance(error, BackendError):
                LOG.error("the connection to %s failed", self.context.name, exc_info=error)
            self._tell(ConnectionStatus(ConnectionState.FAILED, self.clock(), broken(error)))
        finally:
            # A later run may already use another session.
            if self.session is not None and self.session.backend is backend:
                self.session, self.poller = None, None
            if backend is not None:
                await backend.aclose()
            self._running -= 1
            if not self._running:
                self._idle.set()

    def _made(self) -> Backend:
        """Create the unconnected backend. Call this method in a thread, because its imports would block the
        screen."""
        from tui.store.jobs import poller  # noqa: F401, PLC0415

        return self._opener(self.context, self.settings)

    async def closed(self, seconds: float = 3.0) -> None:
        """Wait up to `seconds` until the backend is closed. Cancel `run` first."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._idle.wait()

    def again(self, *, hurry: bool = False, connect: bool = False) -> bool:
        """Read now. Return False if there is no connection and `run` has to be started again. `hurry` polls
        often for a while, after a change made here. For `connect`, see `Poller.kick`."""
        if self.poller is None:
            return self.status.state is ConnectionState.CONNECTING
        self.poller.kick(hurry=hurry, connect=connect)
        return True

    def watch(self, seen: bool) -> None:
        """Set the polling rate for a visible or hidden list."""
        self._seen = seen
        poller = self.poller
        if poller is not None and poller.visible != seen:
            poller.visible = seen
            if seen:
                poller.kick()

    def _tell(self, status: ConnectionStatus) -> None:
        before, self.status = self.status.error, status
        if status.error is not None and before is None:
            self.journal.add("error", f"{self.context.name}: {status.error.message}")
        self._on_connection(status)

    def _on_change(self, change: JobChange) -> None:
        for job in (*change.started, *change.ended):
            self.journal.add("state", f"{job.display_name} {job.state.phrase}", job.name)
        self._on_jobs(change)

    async def _on_round(self) -> None:
        poller = self.poller
        if poller is None:
            return
        if poller.error is not None:
            self._tell(
                ConnectionStatus(ConnectionState.FAILED, poller.failing_since or self.clock(), poller.error)
            )
            return
        self._tell(ConnectionStatus(ConnectionState.LIVE, self.clock()))
        # Show the first read before saving it.
        if self._save_at is None:
            self._save_at = 0.0
        elif self._monotonic() >= self._save_at:
            await self.save()

    async def save(self) -> None:
        """Write the snapshot if a newer list has been read."""
        if self.store.read_at is None:
            return
        self._snapshot_at, self._save_at = self.store.read_at, self._monotonic() + SNAPSHOT_EVERY
        jobs = list(self.store.jobs.values())
        try:
            await asyncio.to_thread(self._file.save, jobs, self.store.read_at)
        except OSError as error:
            self.journal.add("error", f"can't write {self._file.path}: {error.strerror}")
