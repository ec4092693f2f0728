"""Reads the remaining logs of deleted pods from Cloud Logging. Without a project it reports a gap."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from tui.backends.errors import BackendError
from tui.backends.kubernetes.logs import gaps
from tui.backends.kubernetes.logs.container import ContainerReader
from tui.backends.kubernetes.logs.lines.entries import CloudEntry, CloudNames, ContainerName
from tui.backends.kubernetes.logs.lines.merge import LineStream
from tui.backends.kubernetes.logs.lines.merged_log import MergedLog
from tui.backends.kubernetes.logs.lines.selection import Selection
from tui.backends.kubernetes.logs.lines.stamped import moment_of, stamp_at
from tui.backends.kubernetes.logs.pods import JobIdentity, LoggedPod, replica_in
from tui.backends.kubernetes.logs.replaced import Generation
from tui.domain.core.job import Job, known_replicas
from tui.domain.core.log_entry import LogEntry, LogGap

if TYPE_CHECKING:
    from tui.backends.kubernetes.logs.cloud import CloudLog

LATE = 12.0
"""Seconds before Cloud Logging is read again: entries arrive late (docs/facts/vertex.md 5.1)."""
MOST_NAMED = 6
_AFTER_END = timedelta(minutes=5)


class DeletedPodLogs:
    """Reads the remaining logs of deleted pods. `cloud` is `None` if the context names no project."""

    def __init__(self, cloud: CloudLog | None = None, late: float = LATE) -> None:
        self._cloud = cloud
        self._late = late

    async def aclose(self) -> None:
        """Close the channels to Google."""
        if self._cloud is not None:
            await self._cloud.aclose()

    async def of_reader(self, reader: ContainerReader, log: MergedLog) -> None:
        """Deliver the lines of a container that follow the last line that its node returned."""
        since = reader.rest_since
        assert since is not None
        name = reader.name
        why = ""
        if self._cloud is not None:
            source, seen = log.open_source(), _Seen(reader)
            try:
                count = 0
                for wait in (0.0, self._late):
                    await asyncio.sleep(wait)
                    count += await self._copy(name, since, seen, source, log)
                if count:
                    return
                why = "no later entry of this pod exists"
            except BackendError as error:
                why = error.message
            finally:
                source.close()
        if reader.refused:
            log.gap(gaps.unreadable(name, since, reader.refused, cloud=why))
        else:
            log.gap(gaps.pod_gone(name, since, cloud=why))

    async def _copy(
        self, name: ContainerName, since: int, seen: _Seen, source: LineStream, log: MergedLog
    ) -> int:
        """Deliver the new entries of Cloud Logging and return their number."""
        assert self._cloud is not None
        names, count = CloudNames(), 0
        pattern = f"^{re.escape(name.pod)}$"
        async for page in self._cloud.read(name.namespace, pattern, moment_of(since)):
            for cloud_entry in page:
                if cloud_entry.container != name.container:
                    continue
                entry = names.named(name, cloud_entry.entry)
                at = stamp_at(entry.timestamp) + entry.nanos
                if seen.has(entry):
                    continue
                count += 1
                if log.selects(entry, at):
                    source.add(at, [entry], log.now())
            await log.room(source)
        return count

    async def of_missing(
        self, job: Job, identity: JobIdentity, seen: Iterable[str], selection: Selection, log: MergedLog
    ) -> None:
        """Deliver the log of replicas of an ended job whose pods were deleted before the log was opened."""
        present = set(seen)
        missing = [
            replica.id
            for replica in known_replicas(job)
            if replica.id not in present and selection.has_replica(replica.id)
        ]
        begin = job.start_time or job.create_time
        if not missing or job.start_time is None or begin is None or not job.state.terminal:
            return
        received = selection.begin
        end = job.end_time
        if received is not None and end is not None and stamp_at(end) <= received:
            # The log was read while the pods existed.
            return
        why = ""
        if self._cloud is not None:
            try:
                if await self._copy_missing(job, identity, missing, log):
                    return
                why = "no entry"
            except BackendError as error:
                why = error.message
        at = max(stamp_at(begin), received or 0)
        log.gap(gaps.no_pods(_list(missing), at, cloud=why))

    async def of_replaced(  # noqa: PLR0917 - what ran, what there is, and who asks
        self,
        job: Job,
        identity: JobIdentity,
        generations: Iterable[Generation],
        pods: Iterable[LoggedPod],
        selection: Selection,
        log: MergedLog,
    ) -> None:
        """Deliver the logs of replaced pods. `pods` are the existing pods."""
        now = list(pods)
        present = {pod.replica for pod in now}
        selected = list(selected_generations(job, generations, present, selection))
        # In Cloud Logging each generation has its own pods.
        for generation in selected if self._cloud is not None else joined(selected):
            why = ""
            if self._cloud is not None:
                try:
                    if await self._copy_replaced(job, identity, generation, now, log):
                        continue
                    why = "no entry"
                except BackendError as error:
                    why = error.message
            log.gap(replaced_gap(generation, selection, cloud=why))

    async def _copy_replaced(
        self, job: Job, identity: JobIdentity, gone: Generation, now: Iterable[LoggedPod], log: MergedLog
    ) -> int:
        assert self._cloud is not None
        pattern = f"^({'|'.join(sorted({re.escape(pod.name) for pod in gone.pods}))})$"
        until = None if gone.until is None else moment_of(gone.until)
        # The new pod may have the name of the old pod. Its own entries are read from its node.
        created = {pod.name: pod.created for pod in now}
        pages = self._cloud.read(identity.namespace, pattern, moment_of(gone.began), until)
        return await _copy(
            job, identity, pages, log, lambda entry: not _is_of_new_pod(entry, created), lambda _: True
        )

    async def _copy_missing(self, job: Job, identity: JobIdentity, missing: list[str], log: MergedLog) -> int:
        assert self._cloud is not None
        begin = job.create_time or job.start_time
        assert begin is not None
        groups = "|".join(re.escape(group.name) for group in job.groups)
        pattern = f"^{re.escape(identity.object_name)}-({groups})(-|$)"
        until = job.end_time + _AFTER_END if job.end_time is not None else None
        pages = self._cloud.read(identity.namespace, pattern, begin, until)
        return await _copy(job, identity, pages, log, lambda _: True, lambda entry: entry.replica in missing)


async def _copy(  # noqa: PLR0917 - source, log and two filters
    job: Job,
    identity: JobIdentity,
    pages: AsyncIterator[Sequence[CloudEntry]],
    log: MergedLog,
    is_read: Callable[[CloudEntry], bool],
    counts: Callable[[LogEntry], bool],
) -> int:
    """Add the selected entries to the log. Return how many entries `counts` accepts, selected or not."""
    names, count, source = CloudNames(), 0, log.open_source()
    groups = [group.name for group in job.groups]
    try:
        async for page in pages:
            for entry in _named(filter(is_read, page), identity, groups, names):
                if not counts(entry):
                    continue
                count += 1
                at = stamp_at(entry.timestamp) + entry.nanos
                if log.selects(entry, at):
                    source.add(at, [entry], log.now())
            await log.room(source)
    finally:
        source.close()
    return count


class _Seen:
    """The entries of a container that were read shortly before its pod was deleted."""

    def __init__(self, reader: ContainerReader) -> None:
        self._left = Counter((entry.timestamp, entry.nanos, entry.message) for entry in reader.recent)
        self._insert_ids: set[str] = set()

    def has(self, entry: LogEntry) -> bool:
        """Return whether the entry was delivered. Each delivered entry matches only once."""
        if entry.insert_id in self._insert_ids:
            return True
        self._insert_ids.add(entry.insert_id)
        key = (entry.timestamp, entry.nanos, entry.message)
        if self._left[key] > 0:
            self._left[key] -= 1
            return True
        return False


def _named(
    page: Iterable[CloudEntry], identity: JobIdentity, groups: list[str], names: CloudNames
) -> Iterator[LogEntry]:
    for cloud_entry in page:
        pod = cloud_entry.pod
        replica = replica_in(pod, identity.object_name, groups)
        if replica:
            name = ContainerName(identity.namespace, pod, pod, cloud_entry.container, replica)
            yield names.named(name, cloud_entry.entry)


def selected_generations(
    job: Job, generations: Iterable[Generation], present: Collection[str], selection: Selection
) -> Iterator[Generation]:
    """Yield the generations of selected replicas that ran after the received entries."""
    begin = selection.begin
    # `of_missing` reports the replicas of an ended job that have no pod at all.
    missing = {replica.id for replica in known_replicas(job)} - set(present) if job.state.terminal else set()
    for generation in generations:
        if begin is not None and generation.over is not None and generation.over <= begin:
            continue
        pods = tuple(
            pod
            for pod in generation.pods
            if selection.has_replica(pod.replica) and pod.replica not in missing
        )
        if pods:
            yield replace(generation, pods=pods)


def joined(generations: Iterable[Generation]) -> list[Generation]:
    """Join successive generations whose replicas were stopped on purpose in the same way.

    A job that is suspended twice has lost both generations and everything between them.
    """
    result: list[Generation] = []
    for generation in generations:
        last = result[-1] if result else None
        same = last is not None and last.meant and generation.meant and last.why == generation.why
        if last is None or not same or _replicas(last) != _replicas(generation):
            result.append(generation)
            continue
        result[-1] = replace(last, until=generation.until)
    return result


def _replicas(gone: Generation) -> set[str]:
    return {pod.replica for pod in gone.pods}


def replaced_gap(gone: Generation, selection: Selection, *, cloud: str = "") -> LogGap:
    """Return the gap that replaced pods leave."""
    at = max(gone.began, selection.begin or 0)
    replicas = _list([pod.replica for pod in gone.pods])
    return gaps.replaced(replicas, at, gone.until, gone.why, meant=gone.meant, cloud=cloud)


def _is_of_new_pod(entry: CloudEntry, created: Mapping[str, int | None]) -> bool:
    since = created.get(entry.pod)
    return since is not None and stamp_at(entry.entry.timestamp) >= since


def _list(replicas: list[str]) -> str:
    shown = replicas[:MOST_NAMED]
    more = len(replicas) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
