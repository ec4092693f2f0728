"""Follows the log of a job: one stream per container, merged, until the job has ended and all is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tui.backends.errors import BackendError
from tui.backends.interface import LogBatch, LogQuery
from tui.backends.kubernetes.connection import ClusterConnection
from tui.backends.kubernetes.job_pods import JobPods
from tui.backends.kubernetes.logs.container import ContainerReader
from tui.backends.kubernetes.logs.deleted_pod_logs import DeletedPodLogs
from tui.backends.kubernetes.logs.job_watch import JobWatch, PodView
from tui.backends.kubernetes.logs.lines.merged_log import ClusterEntries, MergedLog
from tui.backends.kubernetes.logs.lines.selection import Selection
from tui.backends.kubernetes.logs.lines.stamped import moment_of, stamp_at
from tui.backends.kubernetes.logs.pods import identity
from tui.backends.kubernetes.logs.runs import SETTLED
from tui.backends.kubernetes.logs.slots import Slots
from tui.backends.kubernetes.logs.tail_state import (
    Collecting,
    DrainingPods,
    Following,
    JobPoll,
    PodOutage,
    ReaderTasks,
)
from tui.domain.core.job import Job
from tui.domain.core.log_entry import LogEntry

TICK = 0.1
"""Seconds between deliveries of a busy log."""
ALIVE = 5.0
"""Seconds between empty batches, which only report that the log has been read up to now."""
BEGIN = 15.0
"""Maximum wait in seconds for the pods, events and conditions before the first line is delivered."""


@dataclass(frozen=True, slots=True)
class LogPace:
    """Intervals in seconds at which a tail queries the cluster."""

    state_poll: float
    """Interval between reads of the job's state."""
    drain: float
    """Quiet time that a container still running after the end of the job must reach."""
    settle: float
    """Maximum delay of events after the end of the job."""


LOCAL = LogPace(state_poll=0.5, drain=3.0, settle=0.5)
CLOUD = LogPace(state_poll=3.0, drain=15.0, settle=3.0)


@dataclass(frozen=True, slots=True)
class ClusterLogs:
    """The parts that reading the log of any job of a cluster needs."""

    connection: ClusterConnection
    access: JobPods
    deleted_pods: DeletedPodLogs
    slots: Slots


async def follow(
    cluster: ClusterLogs, query: LogQuery, *, once: bool = False
) -> AsyncGenerator[LogBatch, None]:
    """Yield batches until the job has ended and nothing more can arrive. `once` reads only existing entries.

    Raises BackendError.
    """
    access, name = cluster.access, query.job_name
    job, objects = await asyncio.gather(access.job(name), access.objects(name))
    async with aclosing(PodLogTail(cluster, query, job, objects[0], once).batches()) as batches:
        async for batch in batches:
            yield batch


class PodLogTail:
    """The followed log of one job. `batches` may be run only once."""

    def __init__(
        self, cluster: ClusterLogs, query: LogQuery, job: Job, obj: Mapping[str, Any], once: bool
    ) -> None:
        self._cluster = cluster
        self._until = query.until
        self._once = once
        self._selection = Selection(query)
        self._pace = LOCAL if cluster.connection.local else CLOUD
        self._log = MergedLog(self._selection)
        self._service = ClusterEntries(self._log)
        self._readers: dict[tuple[str, str], ContainerReader] = {}
        """Readers by the pod's uid and the container's name."""
        self._tasks = ReaderTasks(self._log.wake)
        access = cluster.access
        own = identity(query.job_name, obj, access.selector(query.job_name))
        self._watch = JobWatch(
            cluster.connection, own, access, access.naming(job, obj), self._open_pod, self._service.add
        )
        self._poll = JobPoll(access, job, self._pace.state_poll, self._log.now)
        self._phase: Collecting | Following | DrainingPods = Collecting(self._log.now())
        self._outage = PodOutage()
        self._sent_note = ""

    async def batches(self) -> AsyncGenerator[LogBatch, None]:
        """Yield batches until the job has ended and nothing more can arrive. Raises BackendError."""
        log = self._log
        try:
            self._tasks.start(self._watch.run(events=self._selection.service))
            self._tasks.start(self._poll.run(self._watch, self._service.add))
            replaced = self._tasks.start(self._read_replaced(self._poll.job))
            sent_at = log.now()
            while True:
                await log.changed(1.0 if self._poll.ended_at is None else TICK * 3)
                await asyncio.sleep(TICK)
                self._raise()
                self._begin()
                batch = self._batch([] if isinstance(self._phase, Collecting) else log.ready())
                if batch is None and log.now() - sent_at > ALIVE and self._is_alive():
                    batch = LogBatch(received=self._received(), alive=True)
                if batch is not None:
                    sent_at = log.now()
                    yield batch
                if replaced.done() and self._is_done():
                    break
            last = self._batch(log.merge.rest())
            if last is not None:
                yield last
        finally:
            await self._tasks.cancel()

    def _begin(self) -> None:
        """Deliver lines once the oldest lines of all sources are known, or after a time limit."""
        if not isinstance(self._phase, Collecting):
            return
        watch = self._watch
        entries_known = not self._selection.service or (watch.events_known and self._poll.conditions_read)
        if (watch.synced and entries_known) or self._log.now() - self._phase.since > BEGIN:
            self._phase = Following()
            self._service.begin()

    def _raise(self) -> None:
        if self._tasks.error is not None:
            raise self._tasks.error
        self._outage.check(self._watch.error, self._log.now(), closed=self._cluster.connection.closed)

    def _batch(self, entries: list[LogEntry]) -> LogBatch | None:
        note, gaps = self._note(), self._log.take_gaps()
        changed = note if note != self._sent_note else None
        self._sent_note = note
        if not entries and not gaps and changed is None:
            return None
        return LogBatch(tuple(entries), gaps, changed, self._received(), alive=self._is_alive())

    def _note(self) -> str:
        failing, slots = self._log.failing_containers, self._cluster.slots
        if failing:
            name, error = next(iter(failing.items()))
            others = f" (and {len(failing) - 1} more)" if len(failing) > 1 else ""
            return f"the log of {name.words}{others} can't be read now: {error.message}"
        if self._watch.events_error is not None and self._selection.service:
            return f"without the events of the cluster: {self._watch.events_error.message}"
        if slots.waiting:
            return f"{slots.most} logs are followed at the same time; {slots.waiting} wait for a slot"
        return ""

    def _is_alive(self) -> bool:
        return self._watch.synced and self._watch.error is None and not self._log.failing_containers

    def _received(self) -> datetime | None:
        """Return the time up to which every line has been delivered, i.e. the time of the slowest stream."""
        if not self._watch.synced:
            return None
        times = [stamp_at(datetime.now(UTC)) - SETTLED]
        for reader in self._readers.values():
            quiet = reader.reading_since is not None and self._log.now() - reader.source.active_at > ALIVE
            if reader.complete or quiet:
                continue
            known = reader.last if reader.last is not None else reader.begin
            if known is None:
                return None
            times.append(known)
        if self._log.merge.oldest is not None:
            times.append(self._log.merge.oldest)
        return moment_of(min(times))

    # What is read

    def _open_pod(self, view: PodView) -> None:
        if not self._selection.has_replica(view.pod.replica):
            return
        for container in view.pod.containers:
            reader = ContainerReader(
                self._cluster.connection,
                view.pod.container(container),
                view,
                self._log,
                self._log.open_source(),
                self._cluster.slots,
                self._selection.begin,
                self._once,
            )
            self._readers[view.pod.uid, container] = reader
            self._tasks.start(self._read(reader))

    async def _read(self, reader: ContainerReader) -> None:
        await reader.run()
        if reader.rest_since is not None:
            await self._cluster.deleted_pods.of_reader(reader, self._log)
            reader.complete = True

    async def _read_replaced(self, job: Job) -> None:
        """Read the log of pods that were replaced before the log was opened."""
        watch = self._watch
        try:
            events = await watch.list_events()
        except BackendError:
            # Some users may not read events, the only record of these pods. A note reports that.
            return
        await watch.wait()
        pods = [view.pod for view in watch.views.values()]
        generations = watch.replaced(events, [group.name for group in job.groups], pods)
        await self._cluster.deleted_pods.of_replaced(
            job, watch.job, generations, pods, self._selection, self._log
        )

    # The end

    def _is_done(self) -> bool:
        """Return whether everything has been delivered. Before that, start the read of replicas without
        pods."""
        if isinstance(self._phase, Collecting) or self._log.pending or not self._is_read():
            return False
        if not isinstance(self._phase, DrainingPods):
            replicas = [view.pod.replica for view in self._watch.views.values()]
            work = self._cluster.deleted_pods.of_missing(
                self._poll.job, self._watch.job, replicas, self._selection, self._log
            )
            self._phase = DrainingPods(self._tasks.start(work))
        return self._phase.missing.done()

    def _is_read(self) -> bool:
        """Return whether no container can return more lines."""
        watch, readers, now = self._watch, self._readers.values(), self._log.now()
        if not watch.synced:
            return False
        if self._once:
            return watch.events_known and all(reader.complete for reader in readers)
        if self._is_past():
            return True
        ended = self._poll.ended_at
        if ended is None or now - ended < self._pace.settle:
            return False
        return all(
            reader.complete or now - max(reader.source.active_at, ended) >= self._pace.drain
            for reader in readers
        )

    def _is_past(self) -> bool:
        """Return whether new lines are later than the end of the query."""
        until = self._until
        return until is not None and datetime.now(UTC) > until + timedelta(seconds=self._pace.drain)
