"""The rest of the log of pods that are gone: from Cloud Logging where there is a project, else a gap."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from tui.backends.errors import BackendError
from tui.backends.kubernetes.logs import gaps
from tui.backends.kubernetes.logs.cloud_entries import CloudEntry, CloudNames
from tui.backends.kubernetes.logs.container import ContainerReader
from tui.backends.kubernetes.logs.job_watch import JobIdentity
from tui.backends.kubernetes.logs.lines.entries import ContainerName
from tui.backends.kubernetes.logs.lines.merge import Source
from tui.backends.kubernetes.logs.lines.selection import Selection
from tui.backends.kubernetes.logs.lines.stamped import moment_of, stamp_at
from tui.backends.kubernetes.logs.pods import LoggedPod, replica_in
from tui.backends.kubernetes.logs.replaced import Generation
from tui.domain.core.job import Job, known_replicas
from tui.domain.core.log_entry import LogEntry, LogGap

if TYPE_CHECKING:
    from tui.backends.kubernetes.logs.cloud import CloudLog

LATE = 12.0
"""Seconds after which Cloud Logging is asked once more: entries come some seconds late (docs/facts/vertex.md
5.1)."""
MOST_NAMED = 6
_AFTER_END = timedelta(minutes=5)


class Taker(Protocol):
    """Takes what is found."""

    def now(self) -> float:
        """Seconds of the event loop."""

    def open_source(self) -> Source:
        """A new stream of the merged log."""

    def wanted(self, entry: LogEntry, stamp: int) -> bool:
        """Whether the entry is asked for."""

    def gap(self, gap: LogGap) -> None:
        """Report a hole."""

    async def room(self, source: Source) -> None:
        """Wait until the source may bring more."""


class Remains:
    """See the module; `cloud` is `None` where the context names no project."""

    def __init__(self, cloud: CloudLog | None = None, late: float = LATE) -> None:
        self._cloud = cloud
        self._late = late

    async def aclose(self) -> None:
        """Close the channels to Google."""
        if self._cloud is not None:
            await self._cloud.aclose()

    async def of_reader(self, reader: ContainerReader, taker: Taker) -> None:
        """What a container wrote after what was read of it."""
        since = reader.rest_since
        assert since is not None
        name = reader.name
        why = ""
        if self._cloud is not None:
            source, seen = taker.open_source(), _Seen(reader)
            try:
                found = 0
                for wait in (0.0, self._late):
                    await asyncio.sleep(wait)
                    found += await self._copy(name, since, seen, source, taker)
                if found:
                    return
                why = "it has no later entry of this pod"
            except BackendError as error:
                why = error.message
            finally:
                source.close()
        if reader.refused:
            taker.gap(gaps.unreadable(name, since, reader.refused, cloud=why))
        else:
            taker.gap(gaps.pod_gone(name, since, cloud=why))

    async def _copy(self, name: ContainerName, since: int, seen: _Seen, source: Source, taker: Taker) -> int:
        """Deliver what is new in Cloud Logging; returns how many entries that is."""
        assert self._cloud is not None
        names, count = CloudNames(), 0
        pattern = f"^{re.escape(name.pod)}$"
        async for page in self._cloud.read(name.namespace, pattern, moment_of(since)):
            for found in page:
                if found.container != name.container:
                    continue
                entry = names.named(name, found.entry)
                at = stamp_at(entry.timestamp) + entry.nanos
                if seen.has(entry):
                    continue
                count += 1
                if taker.wanted(entry, at):
                    source.add(at, [entry], taker.now())
            await taker.room(source)
        return count

    async def of_missing(
        self, job: Job, identity: JobIdentity, seen: Iterable[str], selection: Selection, taker: Taker
    ) -> None:
        """What replicas of an ended job wrote whose pods were gone before the log was opened."""
        present = set(seen)
        missing = [
            each.id
            for each in known_replicas(job)
            if each.id not in present and selection.has_replica(each.id)
        ]
        begin = job.start_time or job.create_time
        if not missing or job.start_time is None or begin is None or not job.state.terminal:
            return
        received = selection.begin
        end = job.end_time
        if received is not None and end is not None and stamp_at(end) <= received:
            # It was read while they were there.
            return
        why = ""
        if self._cloud is not None:
            try:
                if await self._copy_missing(job, identity, missing, taker):
                    return
                why = "no entry"
            except BackendError as error:
                why = error.message
        at = max(stamp_at(begin), received or 0)
        taker.gap(gaps.no_pods(_list(missing), at, cloud=why))

    async def of_replaced(  # noqa: PLR0917 - what ran, what there is, and who asks
        self,
        job: Job,
        identity: JobIdentity,
        found: Iterable[Generation],
        pods: Iterable[LoggedPod],
        selection: Selection,
        taker: Taker,
    ) -> None:
        """What pods wrote that others have replaced since; `pods` are those that exist."""
        now = list(pods)
        present = {pod.replica for pod in now}
        asked = list(generations_asked_for(job, found, present, selection))
        # In Cloud Logging each has its own pods.
        for each in asked if self._cloud is not None else joined(asked):
            why = ""
            if self._cloud is not None:
                try:
                    if await self._copy_replaced(job, identity, each, now, taker):
                        continue
                    why = "no entry"
                except BackendError as error:
                    why = error.message
            taker.gap(replaced_gap(each, selection, cloud=why))

    async def _copy_replaced(
        self, job: Job, identity: JobIdentity, gone: Generation, now: Iterable[LoggedPod], taker: Taker
    ) -> int:
        assert self._cloud is not None
        pattern = f"^({'|'.join(sorted({re.escape(pod.name) for pod in gone.pods}))})$"
        until = None if gone.until is None else moment_of(gone.until)
        # The new pod may have the name of the old one: what it writes is read from its node.
        created = {pod.name: pod.created for pod in now}
        pages = self._cloud.read(identity.namespace, pattern, moment_of(gone.began), until)
        return await _copy(
            job, identity, pages, taker, lambda each: not _is_of_new(each, created), lambda _: True
        )

    async def _copy_missing(self, job: Job, identity: JobIdentity, missing: list[str], taker: Taker) -> int:
        assert self._cloud is not None
        begin = job.create_time or job.start_time
        assert begin is not None
        groups = "|".join(re.escape(group.name) for group in job.groups)
        pattern = f"^{re.escape(identity.object_name)}-({groups})(-|$)"
        until = job.end_time + _AFTER_END if job.end_time is not None else None
        pages = self._cloud.read(identity.namespace, pattern, begin, until)
        return await _copy(
            job, identity, pages, taker, lambda _: True, lambda entry: entry.replica in missing
        )


async def _copy(  # noqa: PLR0917 - what is read, for whom, and which of it
    job: Job,
    identity: JobIdentity,
    pages: AsyncIterator[Sequence[CloudEntry]],
    taker: Taker,
    is_read: Callable[[CloudEntry], bool],
    counts: Callable[[LogEntry], bool],
) -> int:
    """Give the taker what it wants of these entries; how many there are, wanted or not."""
    names, count, source = CloudNames(), 0, taker.open_source()
    groups = [group.name for group in job.groups]
    try:
        async for page in pages:
            for entry in _named(filter(is_read, page), identity, groups, names):
                if not counts(entry):
                    continue
                count += 1
                at = stamp_at(entry.timestamp) + entry.nanos
                if taker.wanted(entry, at):
                    source.add(at, [entry], taker.now())
            await taker.room(source)
    finally:
        source.close()
    return count


class _Seen:
    """What was read of a container shortly before its pod was gone."""

    def __init__(self, reader: ContainerReader) -> None:
        self._left = Counter((entry.timestamp, entry.nanos, entry.message) for entry in reader.recent)
        self._taken: set[str] = set()

    def has(self, entry: LogEntry) -> bool:
        """Whether the entry was delivered; each is found once."""
        if entry.insert_id in self._taken:
            return True
        self._taken.add(entry.insert_id)
        key = (entry.timestamp, entry.nanos, entry.message)
        if self._left[key] > 0:
            self._left[key] -= 1
            return True
        return False


def _named(
    page: Iterable[CloudEntry], identity: JobIdentity, groups: list[str], names: CloudNames
) -> Iterator[LogEntry]:
    for found in page:
        replica = replica_in(found.pod, identity.object_name, groups)
        if replica:
            name = ContainerName(identity.namespace, found.pod, found.pod, found.container, replica)
            yield names.named(name, found.entry)


def generations_asked_for(
    job: Job, found: Iterable[Generation], present: Collection[str], selection: Selection
) -> Iterator[Generation]:
    """Those of replicas that a query asks for, and that ran after what it has received."""
    begin = selection.begin
    # Of an ended job the replicas without any pod are told together; see `of_missing`.
    told = {each.id for each in known_replicas(job)} - set(present) if job.state.terminal else set()
    for each in found:
        if begin is not None and each.over is not None and each.over <= begin:
            continue
        pods = tuple(
            pod for pod in each.pods if selection.has_replica(pod.replica) and pod.replica not in told
        )
        if pods:
            yield replace(each, pods=pods)


def joined(found: Iterable[Generation]) -> list[Generation]:
    """These, those that follow one another as one where the same was done to the same replicas on purpose.

    A job that is suspended again has lost both, and what lies between them.
    """
    made: list[Generation] = []
    for each in found:
        before = made[-1] if made else None
        same = before is not None and before.meant and each.meant and before.why == each.why
        if before is None or not same or _replicas(before) != _replicas(each):
            made.append(each)
            continue
        made[-1] = replace(before, until=each.until)
    return made


def _replicas(gone: Generation) -> set[str]:
    return {pod.replica for pod in gone.pods}


def replaced_gap(gone: Generation, selection: Selection, *, cloud: str = "") -> LogGap:
    """The hole that pods leave which were replaced."""
    at = max(gone.began, selection.begin or 0)
    replicas = _list([pod.replica for pod in gone.pods])
    return gaps.replaced(replicas, at, gone.until, gone.why, meant=gone.meant, cloud=cloud)


def _is_of_new(entry: CloudEntry, created: Mapping[str, int | None]) -> bool:
    since = created.get(entry.pod)
    return since is not None and stamp_at(entry.entry.timestamp) >= since


def _list(replicas: list[str]) -> str:
    shown = replicas[:MOST_NAMED]
    more = len(replicas) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
