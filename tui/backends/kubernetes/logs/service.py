"""The log service of one cluster: stored and new lines of a job's pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from tui.backends.errors import BackendError, NotFound
from tui.backends.interface import LogBatch, LogQuery, LogService
from tui.backends.kubernetes.connection import ClusterConnection
from tui.backends.kubernetes.job_pods import JobPods
from tui.backends.kubernetes.logs import gaps
from tui.backends.kubernetes.logs.deleted_pod_logs import (
    DeletedPodLogs,
    joined,
    replaced_gap,
    selected_generations,
)
from tui.backends.kubernetes.logs.job_watch import JobWatch
from tui.backends.kubernetes.logs.lines.selection import Selection
from tui.backends.kubernetes.logs.lines.stamped import stamp_at
from tui.backends.kubernetes.logs.newest import NewestReader
from tui.backends.kubernetes.logs.pods import LoggedPod, identity
from tui.backends.kubernetes.logs.slots import Slots
from tui.backends.kubernetes.logs.tail import ClusterLogs, follow
from tui.domain.core.log_entry import LogEntry, LogGap

PAGE = 1000
QUIET = timedelta(seconds=60)
"""Margin before the start of a read. The read is complete up to the start minus this margin, because the
clocks of nodes differ slightly."""


class KubernetesLogs(LogService):
    """Logs of pods."""

    def __init__(
        self, connection: ClusterConnection, pods: JobPods, newest: NewestReader, deleted_pods: DeletedPodLogs
    ) -> None:
        self._connection = connection
        self._pods = pods
        self._newest = newest
        self._cluster = ClusterLogs(connection, pods, deleted_pods, Slots())

    async def aclose(self) -> None:
        """Close the channels to Google."""
        await self._cluster.deleted_pods.aclose()

    async def read(
        self, query: LogQuery, *, newest_first: bool = False, limit: int | None = None
    ) -> AsyncGenerator[LogBatch, None]:
        read = self._read_newest if newest_first else self._read_oldest
        async with aclosing(read(query, limit)) as batches:
            async for batch in batches:
                yield batch

    def tail(self, query: LogQuery) -> AsyncGenerator[LogBatch, None]:
        return follow(self._cluster, query)

    async def _read_oldest(self, query: LogQuery, limit: int | None) -> AsyncGenerator[LogBatch, None]:
        left = limit
        async with aclosing(follow(self._cluster, query, once=True)) as batches:
            async for batch in batches:
                if not batch.entries and not batch.gaps:
                    continue
                yield LogBatch(batch.entries[:left], batch.gaps)
                if left is not None:
                    left -= len(batch.entries)
                    if left <= 0:
                        return

    async def _read_newest(self, query: LogQuery, limit: int | None) -> AsyncGenerator[LogBatch, None]:
        """Yield pages of entries, newest first, then the gaps."""
        selection, began = Selection(query), datetime.now(UTC)
        pods = await self._pods.pods(query.job_name)
        most = limit if limit is not None else 1 << 31
        newest, (service, replaced) = await asyncio.gather(
            self._newest.read(pods, selection, most), self._cluster_log(query, selection)
        )
        entries = [*newest.entries, *service]
        entries.sort(key=lambda entry: entry.key, reverse=True)
        created = {pod.uid: pod.created for pod in pods}
        holes = [
            gaps.unreadable(name, created.get(name.uid) or 0, error.message)
            for name, error in newest.problems
            if not isinstance(error, NotFound)
        ]
        received = None if holes else _received(pods, newest.entries, began)
        oldest = entries[:most][-1].timestamp if entries and len(entries) > most else None
        holes += [gap for gap in replaced if oldest is None or (gap.until or gap.timestamp) >= oldest]
        for start in range(0, len(entries[:most]), PAGE):
            yield LogBatch(tuple(entries[start : min(start + PAGE, most)]), received=received)
        if holes:
            yield LogBatch(gaps=tuple(holes), received=received)

    async def _cluster_log(
        self, query: LogQuery, selection: Selection
    ) -> tuple[list[LogEntry], list[LogGap]]:
        """Return the cluster's own entries about the current job, and the gaps of replaced pods."""
        name = query.job_name
        objects, job = await asyncio.gather(self._pods.objects(name), self._pods.job(name))
        own = identity(name, objects[0], self._pods.selector(name))
        entries: dict[str, LogEntry] = {}

        def add(more: Iterable[LogEntry]) -> None:
            entries.update((entry.insert_id, entry) for entry in more)

        replica_of = self._pods.naming(job, objects[0])
        watch = JobWatch(self._connection, own, self._pods, replica_of, lambda _view: None, add)
        pods = await self._pods.pod_objects(name)
        events: Sequence[Mapping[str, Any]] = ()
        with suppress(BackendError):
            # Some users may not read events. The conditions contain most of the information.
            events = await watch.list_events()
        present = [pod for pod, _ in pods]
        replaced = watch.replaced(events, [group.name for group in job.groups], present)
        selected = selected_generations(job, replaced, {pod.replica for pod in present}, selection)
        holes = [replaced_gap(generation, selection) for generation in joined(selected)]
        if not selection.service:
            return [], holes
        for pod, obj in pods:
            add(watch.status_entries(pod, obj))
        add(await watch.job_entries())
        for event in events:
            add(watch.event_entries(event))
        return [e for e in entries.values() if selection.has(e, stamp_at(e.timestamp))], holes


def _received(pods: Iterable[LoggedPod], entries: Iterable[LogEntry], began: datetime) -> datetime | None:
    """Return the time up to which a read is complete: the newest line of running pods, or shortly before
    now."""
    running = {pod.replica for pod in pods if not pod.over}
    if not running:
        return began - QUIET
    newest: dict[str, datetime] = {}
    for entry in entries:
        if entry.replica in running:
            newest[entry.replica] = max(entry.timestamp, newest.get(entry.replica, entry.timestamp))
    if running - newest.keys():
        return None
    return min(*newest.values(), began - QUIET)
