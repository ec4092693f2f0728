"""The merged log of a job's containers and its cluster, with the gaps and read failures."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from tui.backends.errors import BackendError
from tui.backends.kubernetes.logs.lines.entries import ContainerName
from tui.backends.kubernetes.logs.lines.merge import LineStream, Merge
from tui.backends.kubernetes.logs.lines.selection import Selection
from tui.backends.kubernetes.logs.lines.stamped import stamp_at
from tui.domain.core.log_entry import LogEntry, LogGap


class MergedLog:
    """Collects lines from the container readers and delivers them to the tail ordered by time."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self.merge = Merge()
        self.failing_containers: dict[ContainerName, BackendError] = {}
        """The containers whose logs can't be read now."""
        self._loop = asyncio.get_running_loop()
        self._gaps: list[LogGap] = []
        self._changed = asyncio.Event()
        self._room_made = asyncio.Event()

    # For readers

    def now(self) -> float:
        """Return the event loop's time in seconds."""
        return self._loop.time()

    def selects(self, entry: LogEntry, stamp: int) -> bool:
        """Return whether the query selects the entry."""
        return self.selection.has(entry, stamp)

    def gap(self, gap: LogGap) -> None:
        """Report a gap."""
        self._gaps.append(gap)
        self.wake()

    def open_source(self) -> LineStream:
        """Open another stream of the merged log."""
        return self.merge.open()

    async def room(self, source: LineStream) -> None:
        """Wait until the source may deliver more lines."""
        if source.queue:
            self.wake()
        while source.full:
            self._room_made.clear()
            await self._room_made.wait()

    def failing(self, name: ContainerName, error: BackendError | None) -> None:
        """Record that the log of a container can't be read now; `None` means that it can be read again."""
        if error is not None:
            self.failing_containers[name] = error
            self.wake()
        else:
            self.failing_containers.pop(name, None)

    # For the tail

    def wake(self) -> None:
        """End the tail's wait."""
        self._changed.set()

    async def changed(self, seconds: float) -> None:
        """Wait for a change, at most `seconds`; return immediately if entries are waiting."""
        if not self.merge.waiting:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
        self._changed.clear()

    @property
    def pending(self) -> bool:
        """Whether entries or gaps wait to be delivered."""
        return bool(self._gaps) or self.merge.waiting

    def ready(self) -> list[LogEntry]:
        """Remove and return the entries that may be delivered now, in order. Readers may then add more."""
        entries = self.merge.ready(self.now())
        self._room_made.set()
        return entries

    def take_gaps(self) -> tuple[LogGap, ...]:
        """Remove and return the gaps that were reported."""
        gaps, self._gaps = tuple(self._gaps), []
        return gaps


class ClusterEntries:
    """Entries of the cluster itself, each delivered once.

    Events and conditions are read one after another. Their entries are held back and sorted until the log
    begins.
    """

    def __init__(self, log: MergedLog) -> None:
        self._log = log
        self._source = log.open_source()
        self._ids: set[str] = set()
        """Ids of the entries that were added."""
        self._held: list[LogEntry] | None = []
        """Entries that wait for `begin`; `None` once `begin` was called."""

    def add(self, entries: Iterable[LogEntry]) -> None:
        """Add the entries that the query selects, except those that were added before."""
        selection, new = self._log.selection, []
        if not selection.service:
            return
        for entry in entries:
            if entry.insert_id not in self._ids and selection.has(entry, stamp_at(entry.timestamp)):
                self._ids.add(entry.insert_id)
                new.append(entry)
        if self._held is None:
            self._merge(new)
        else:
            self._held += new

    def begin(self) -> None:
        """Deliver the entries that were held back, and from now on each entry as it arrives."""
        held, self._held = self._held, None
        self._merge(held or [])

    def _merge(self, entries: Iterable[LogEntry]) -> None:
        for entry in sorted(entries, key=lambda entry: entry.key):
            self._source.add(stamp_at(entry.timestamp), [entry], self._log.now())
            self._log.wake()
