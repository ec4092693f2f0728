"""Follows the log of a job: a stream for each container, merged, until the job has ended and all is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tui.backends.errors import BackendError, NotFound, QuotaExceeded, Unavailable
from tui.backends.interface import LogBatch, LogQuery
from tui.backends.kubernetes.connection import Connection
from tui.backends.kubernetes.logs.container import ContainerReader
from tui.backends.kubernetes.logs.deleted_pod_logs import DeletedPodLogs
from tui.backends.kubernetes.logs.job_watch import ContainerNews, JobAccess, JobWatch, PodView, identity
from tui.backends.kubernetes.logs.lines.entries import ContainerName
from tui.backends.kubernetes.logs.lines.merge import Merge, Source
from tui.backends.kubernetes.logs.lines.selection import Selection
from tui.backends.kubernetes.logs.lines.stamped import moment_of, stamp_at
from tui.backends.kubernetes.logs.runs import SETTLED
from tui.backends.kubernetes.logs.slots import Slots
from tui.domain.core.job import Job
from tui.domain.core.log_entry import LogEntry, LogGap

TICK = 0.1
"""Seconds between two deliveries of a busy log."""
ALIVE = 5.0
"""Seconds between two batches that only say that the log is read up to now."""
BEGIN = 15.0
"""Longest wait for the pods, the events and the conditions before the first line is delivered."""
GIVE_UP = 180.0
"""Seconds without a way to watch the pods after which the tail ends with that error."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often the service is asked; seconds."""

    state_poll: float
    """Between two looks at the state of the job."""
    drain: float
    """After the end of a job: how long containers that run on may still be quiet."""
    settle: float
    """After the end of a job: how long events may come late."""


LOCAL = Pace(state_poll=0.5, drain=3.0, settle=0.5)
CLOUD = Pace(state_poll=3.0, drain=15.0, settle=3.0)


@dataclass(slots=True)
class _Containers:
    """What reads containers, and what failed."""

    readers: dict[tuple[str, str], ContainerReader] = field(default_factory=dict)
    failing: dict[ContainerName, BackendError] = field(default_factory=dict)


class Tail:
    """One followed log. `follow` may be run once."""

    def __init__(  # noqa: PLR0917 - what is read, from where and how
        self,
        connection: Connection,
        access: JobAccess,
        deleted_pods: DeletedPodLogs,
        slots: Slots,
        query: LogQuery,
        once: bool = False,
    ) -> None:
        """`once`: only what is there now."""
        self._connection = connection
        self._access = access
        self._deleted_pods = deleted_pods
        self._query = query
        self._once = once
        self._selection = Selection(query)
        self._pace = LOCAL if connection.local else CLOUD
        self._slots = slots
        self._loop = asyncio.get_running_loop()
        self._merge = Merge()
        self._service = self._merge.open()
        self._containers = _Containers()
        self._tasks: set[asyncio.Task[None]] = set()
        self._error: BaseException | None = None
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._gaps: list[LogGap] = []
        self._told: set[str] = set()
        """Ids of entries of the service that were delivered."""
        self._job: Job | None = None
        self._ended_at: float | None = None
        """When the job was first seen to have ended."""
        self._watch: JobWatch | None = None
        self._said = ""
        self._blind_since: float | None = None
        self._opened_at = self.now()
        self._begun = self._looked = False
        """Lines are delivered; the conditions of the job are told."""
        self._first: list[LogEntry] = []
        """What the service said before that: events and conditions come one after the other."""
        self._replaced: asyncio.Task[None] | None = None
        """Looks for pods that were replaced before the log was opened."""
        self._remaining: asyncio.Task[None] | None = None
        """Reads the log of replicas without pods, at the end."""

    # What a container's reader is given

    def now(self) -> float:
        """Seconds of the event loop."""
        return self._loop.time()

    def wanted(self, entry: LogEntry, stamp: int) -> bool:
        """Whether the query asks for it."""
        return self._selection.has(entry, stamp)

    def gap(self, gap: LogGap) -> None:
        """Deliver a gap."""
        self._gaps.append(gap)
        self._wake.set()

    def open_source(self) -> Source:
        """Another stream of the merged log."""
        return self._merge.open()

    async def room(self, source: Source) -> None:
        """Wait until what the source has brought is taken."""
        if source.queue:
            self._wake.set()
        while source.full:
            self._room.clear()
            await self._room.wait()

    def failing(self, name: ContainerName, error: BackendError | None) -> None:
        """Take note of a stream that fails."""
        if error is not None:
            self._containers.failing[name] = error
            self._wake.set()
        else:
            self._containers.failing.pop(name, None)

    # Following

    async def follow(self) -> AsyncGenerator[LogBatch, None]:
        """Batches until the job has ended and nothing more can come."""
        name = self._query.job_name
        shown, found = await asyncio.gather(self._access.job(name), self._access.objects(name))
        self._job = shown
        replica_of = self._access.naming(shown, found[0])
        job = identity(name, found[0], self._access.selector(name))
        self._watch = JobWatch(self._connection, job, self._access, replica_of, self._open_pod, self._tell)
        if shown.state.terminal:
            self._ended_at = self.now()
        try:
            self._start(self._watch.run(events=self._selection.service))
            self._start(self._look())
            self._replaced = self._start(self._look_back(shown))
            async for batch in self._batches():
                yield batch
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _batches(self) -> AsyncGenerator[LogBatch, None]:
        spoke = self.now()
        while True:
            await self._wait()
            self._raise()
            batch = self._batch(self._merge.ready(self.now()) if self._has_begun() else [])
            self._room.set()
            if batch is None and self.now() - spoke > ALIVE and self._is_alive():
                batch = LogBatch(received=self._received(), alive=True)
            if batch is not None:
                spoke = self.now()
                yield batch
            if await self._is_done():
                break
        last = self._batch(self._merge.rest())
        if last is not None:
            yield last

    def _has_begun(self) -> bool:
        """Whether the oldest lines of all are known, or were waited for for long."""
        watch = self._watch
        assert watch is not None
        if not self._begun:
            told = not self._selection.service or (watch.events_known and self._looked)
            self._begun = (watch.synced and told) or self.now() - self._opened_at > BEGIN
            if self._begun:
                self._add_service(self._first)
        return self._begun

    async def _wait(self) -> None:
        """Until something has come, or what waits is due."""
        if not self._merge.waiting:
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK * 3 if self._ended_at else 1.0):
                    await self._wake.wait()
        self._wake.clear()
        await asyncio.sleep(TICK)

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error
        watch = self._watch
        assert watch is not None
        if watch.error is None:
            self._blind_since = None
            return
        if not isinstance(watch.error, Unavailable):
            raise watch.error
        self._blind_since = self._blind_since or self.now()
        if self._connection.closed or self.now() - self._blind_since > GIVE_UP:
            raise watch.error

    def _batch(self, entries: list[LogEntry]) -> LogBatch | None:
        note, gaps = self._note(), tuple(self._gaps)
        self._gaps.clear()
        changed = note if note != self._said else None
        self._said = note
        if not entries and not gaps and changed is None:
            return None
        return LogBatch(tuple(entries), gaps, changed, self._received(), alive=self._is_alive())

    def _note(self) -> str:
        failing, waiting = self._containers.failing, self._slots.waiting
        if failing:
            name, error = next(iter(failing.items()))
            others = f" (and {len(failing) - 1} more)" if len(failing) > 1 else ""
            return f"the log of {name.words}{others} can't be read now: {error.message}"
        if self._watch is not None and self._watch.events_error is not None and self._selection.service:
            return f"without the events of the cluster: {self._watch.events_error.message}"
        if waiting:
            return f"{self._slots.most} logs are followed at once; {waiting} wait for their turn"
        return ""

    def _is_alive(self) -> bool:
        watch = self._watch
        assert watch is not None
        return watch.synced and watch.error is None and not self._containers.failing

    def _received(self) -> datetime | None:
        """What was received before this is delivered: of the stream that is furthest behind."""
        assert self._watch is not None
        if not self._watch.synced:
            return None
        now = stamp_at(datetime.now(UTC))
        times = [now - SETTLED]
        for reader in self._containers.readers.values():
            if reader.complete:
                continue
            quiet = reader.reading_since is not None and self.now() - reader.source.active_at > ALIVE
            known = reader.last if reader.last is not None else reader.begin
            if quiet:
                continue
            if known is None:
                return None
            times.append(known)
        times += [stamp for stamp in (self._merge.oldest,) if stamp is not None]
        return moment_of(min(times))

    # Pods and the service's own lines

    def _open_pod(self, view: PodView) -> None:
        if not self._selection.has_replica(view.pod.replica):
            return
        for container in view.pod.containers:
            name = view.pod.container(container)
            reader = ContainerReader(
                self._connection,
                name,
                ContainerNews(view, container),
                self,
                self._merge.open(),
                self._slots,
                self._selection.begin,
                self._once,
            )
            self._containers.readers[view.pod.uid, container] = reader
            self._start(self._read(reader))

    async def _read(self, reader: ContainerReader) -> None:
        await reader.run()
        if reader.rest_since is not None:
            await self._deleted_pods.of_reader(reader, self)
            reader.complete = True
        self._wake.set()

    def _tell(self, entries: Iterable[LogEntry]) -> None:
        if not self._selection.service:
            return
        new = []
        for entry in entries:
            if entry.insert_id not in self._told and self._selection.has(entry, stamp_at(entry.timestamp)):
                self._told.add(entry.insert_id)
                new.append(entry)
        if self._begun:
            self._add_service(new)
        else:
            self._first += new

    def _add_service(self, entries: Iterable[LogEntry]) -> None:
        for entry in sorted(entries, key=lambda entry: entry.key):
            self._service.add(stamp_at(entry.timestamp), [entry], self.now())
            self._wake.set()

    async def _look_back(self, job: Job) -> None:
        """Say which pods ran before those that there are."""
        watch = self._watch
        assert watch is not None
        try:
            events = await watch.list_events()
        except BackendError:
            # Not everybody may read events, and nothing else tells of such pods; a note says so.
            return
        await watch.wait()
        pods = [view.pod for view in watch.views.values()]
        found = watch.replaced(events, [group.name for group in job.groups], pods)
        await self._deleted_pods.of_replaced(job, watch.job, found, pods, self._selection, self)

    # The end

    async def _look(self) -> None:
        """Look at the state of the job, again and again, and at what its conditions say."""
        watch = self._watch
        assert watch is not None
        while True:
            ended = self._ended_at is not None
            try:
                self._tell(await watch.job_entries())
                self._looked = True
                self._job = await self._access.job(self._query.job_name)
                if ended:
                    # What its conditions said when it had ended is told.
                    return
                if self._job.state.terminal:
                    self._ended_at = self.now()
                    continue
            except NotFound:
                self._ended_at = self._ended_at or self.now()
                return
            except (Unavailable, QuotaExceeded):
                # The watch of the pods says so too, and knows for how long.
                pass
            await asyncio.sleep(self._pace.state_poll)

    async def _is_done(self) -> bool:
        ended, watch = self._ended_at, self._watch
        if watch is None or not watch.synced or self._gaps or self._merge.waiting:
            return False
        if self._replaced is None or not self._replaced.done():
            return False
        readers = self._containers.readers.values()
        if self._once:
            if not (watch.events_known and all(reader.complete for reader in readers)):
                return False
        elif not self._is_past():
            if ended is None or self.now() - ended < self._pace.settle:
                return False
            for reader in readers:
                quiet_since = max(reader.source.active_at, ended)
                if not reader.complete and self.now() - quiet_since < self._pace.drain:
                    return False
        if self._remaining is None:
            assert self._job is not None
            replicas = [view.pod.replica for view in watch.views.values()]
            work = self._deleted_pods.of_missing(self._job, watch.job, replicas, self._selection, self)
            self._remaining = self._start(work)
        return self._remaining.done()

    def _is_past(self) -> bool:
        """Nothing that comes is asked for any more."""
        until = self._query.until
        return until is not None and datetime.now(UTC) > until + timedelta(seconds=self._pace.drain)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._error = self._error or error
        self._wake.set()
