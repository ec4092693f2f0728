"""The log service of one cluster: stored lines of the pods of a job, and lines as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
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
from tui.backends.kubernetes.logs.job_watch import JobWatch, identity
from tui.backends.kubernetes.logs.lines.selection import Selection
from tui.backends.kubernetes.logs.lines.stamped import stamp_at
from tui.backends.kubernetes.logs.newest import NewestReader
from tui.backends.kubernetes.logs.pods import LoggedPod
from tui.backends.kubernetes.logs.slots import Slots
from tui.backends.kubernetes.logs.tail import ClusterLogs, follow
from tui.domain.core.log_entry import LogEntry, LogGap

PAGE = 1000
QUIET = timedelta(seconds=60)
"""How far before the start of a reading its end is put: clocks of nodes differ a little."""


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
        """Pages, the newest entry first, then what can't be read."""
        selection, began = Selection(query), datetime.now(UTC)
        pods = await self._pods.pods(query.job_name)
        most = limit if limit is not None else 1 << 31
        found, (service, replaced) = await asyncio.gather(
            self._newest.read(pods, selection, most), self._told(query, selection)
        )
        entries = [*found.entries, *service]
        entries.sort(key=lambda entry: entry.key, reverse=True)
        holes = [
            gaps.unreadable(name, self._start_of(pods, name.uid), error.message)
            for name, error in found.problems
            if not isinstance(error, NotFound)
        ]
        received = None if holes else _received(pods, found.entries, began)
        oldest = entries[:most][-1].timestamp if entries and len(entries) > most else None
        holes += [gap for gap in replaced if oldest is None or (gap.until or gap.timestamp) >= oldest]
        for start in range(0, len(entries[:most]), PAGE):
            yield LogBatch(tuple(entries[start : min(start + PAGE, most)]), received=received)
        if holes:
            yield LogBatch(gaps=tuple(holes), received=received)

    def _start_of(self, pods: Iterable[LoggedPod], uid: str) -> int:
        return next((pod.created for pod in pods if pod.uid == uid and pod.created), 0)

    async def _told(self, query: LogQuery, selection: Selection) -> tuple[list[LogEntry], list[LogGap]]:
        """What the cluster itself says of the job, as it is now, and which pods others have replaced."""
        name = query.job_name
        objects, job = await asyncio.gather(self._pods.objects(name), self._pods.job(name))
        who = identity(name, objects[0], self._pods.selector(name))
        replica_of = self._pods.naming(job, objects[0])
        told: dict[str, LogEntry] = {}

        def tell(entries: Iterable[LogEntry]) -> None:
            told.update((entry.insert_id, entry) for entry in entries)

        watch = JobWatch(self._connection, who, self._pods, replica_of, lambda _view: None, tell)
        pods = await self._pods.pod_objects(name)
        events: list[Mapping[str, Any]] = []
        with suppress(BackendError):
            # Not everybody may read events; the conditions tell the most.
            events = await watch.list_events()
        now = [pod for pod, _ in pods]
        gone = watch.replaced(events, [group.name for group in job.groups], now)
        asked = selected_generations(job, gone, {pod.replica for pod in now}, selection)
        holes = [replaced_gap(each, selection) for each in joined(asked)]
        if not selection.service:
            return [], holes
        for pod, obj in pods:
            tell(watch.status_entries(pod, obj))
        tell(await watch.job_entries())
        for each in events:
            tell(watch.event_entries(each))
        return [entry for entry in told.values() if selection.has(entry, stamp_at(entry.timestamp))], holes


def _received(pods: Iterable[LoggedPod], entries: Iterable[LogEntry], began: datetime) -> datetime | None:
    """Until when a reading is complete: the newest line of pods that still write, or a little before now."""
    writing = {pod.replica for pod in pods if not pod.over}
    if not writing:
        return began - QUIET
    newest: dict[str, datetime] = {}
    for entry in entries:
        if entry.replica in writing:
            newest[entry.replica] = max(entry.timestamp, newest.get(entry.replica, entry.timestamp))
    if writing - newest.keys():
        return None
    return min(*newest.values(), began - QUIET)
