"""Reads the newest lines of a job's pods from the end of each log, without reading entire logs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tui.backends.errors import BackendError, InvalidRequest, NotFound
from tui.backends.kubernetes.connection import ClusterConnection
from tui.backends.kubernetes.logs.lines.entries import ContainerName, entries_of
from tui.backends.kubernetes.logs.lines.selection import Selection
from tui.backends.kubernetes.logs.lines.stamped import LineSplitter, StampedLine, since_time
from tui.backends.kubernetes.logs.pods import LoggedPod
from tui.domain.core.log_entry import LogEntry
from tui.domain.log.judge import SeverityJudge

AT_ONCE = 16
"""Number of logs read at the same time."""
FEWEST = 200
"""Minimum number of lines that are read of a container."""
MORE = 4
"""Growth factor of the number of lines if the last read returned too few."""
MOST = 2_000_000
"""Number of lines of one container beyond which no older lines are read."""
READ_SECONDS = 60.0


@dataclass(slots=True)
class _Log:
    """The lines that were read of one container, counted from its end."""

    name: ContainerName
    previous: bool
    """Whether the previous run has a log too."""
    lines: list[StampedLine] = field(default_factory=list)
    whole: bool = False
    """Whether all lines were read; no older lines exist."""

    @property
    def horizon(self) -> int:
        """Time (ns) of the oldest line that was read; 0 if no older lines exist."""
        if self.whole or not self.lines:
            return 0
        return self.lines[0].stamp


@dataclass(frozen=True, slots=True)
class Newest:
    """Entries, newest first, and whether older entries exist."""

    entries: tuple[LogEntry, ...]
    complete: bool
    """Whether no older entries exist."""
    problems: tuple[tuple[ContainerName, BackendError], ...] = ()


class NewestReader:
    """Reads the logs of one cluster from their ends."""

    def __init__(self, connection: ClusterConnection) -> None:
        self._connection = connection
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def read(self, pods: Sequence[LoggedPod], selection: Selection, limit: int) -> Newest:
        """Return at least `limit` selected entries, or all if there are fewer. Raises BackendError."""
        logs = [
            _Log(pod.container(name), state.previous)
            for pod in pods
            for name, state in pod.containers.items()
            if state.any_run and selection.has_replica(pod.replica)
        ]
        problems: dict[ContainerName, BackendError] = {}
        size = max(FEWEST, 2 * limit // max(1, len(logs)))
        while True:
            open_logs = [log for log in logs if not log.whole]
            await asyncio.gather(*(self._read(log, size, problems) for log in open_logs))
            horizon = max((log.horizon for log in logs), default=0)
            entries = [entry for log in logs for entry in _entries(log, horizon, selection)]
            complete = all(log.whole for log in logs)
            if complete or len(entries) >= limit or size >= MOST:
                entries.sort(key=lambda entry: entry.key, reverse=True)
                return Newest(tuple(entries), complete, tuple(problems.items()))
            size *= MORE

    async def _read(self, log: _Log, size: int, problems: dict[ContainerName, BackendError]) -> None:
        try:
            lines = await self.last(log.name, size)
            log.whole = len(lines) < size
            if log.whole and log.previous:
                # Read the rest of the lines from the previous run.
                before = await self._previous(log.name, size - len(lines))
                log.whole = before is None or len(before) < size - len(lines)
                lines = [*(before or ()), *lines]
            log.lines = lines
        except BackendError as error:
            problems[log.name] = error
            log.whole = True

    async def _previous(self, name: ContainerName, size: int) -> list[StampedLine] | None:
        try:
            return await self.last(name, size, previous=True)
        except (InvalidRequest, NotFound):
            return None

    async def last(
        self,
        name: ContainerName,
        size: int,
        *,
        previous: bool = False,
        since: int | None = None,
        most_bytes: int | None = None,
        within: float = READ_SECONDS,
        patience: float | None = None,
    ) -> list[StampedLine]:
        """Return the last lines of a container's log, oldest first, from `since` (s since 1970) on.

        With `most_bytes`, return the first lines instead. Raises BackendError.
        """
        params = {
            "container": name.container,
            "timestamps": True,
            "tailLines": size if most_bytes is None else None,
            "limitBytes": most_bytes,
            "previous": previous or None,
            "sinceTime": since_time(since),
        }
        path = f"/api/v1/namespaces/{name.namespace}/pods/{name.pod}/log"
        async with self._slots:
            action = f"read the log of {name.words}"
            data = await self._connection.read(
                path, action=action, params=params, within=within, patience=patience
            )
        splitter = LineSplitter()
        lines = splitter.feed(data)
        return lines if most_bytes is not None else [*lines, *splitter.rest()]


def _entries(log: _Log, horizon: int, selection: Selection) -> list[LogEntry]:
    """Return the entries of lines that are not older than the horizon of all logs."""
    counts: Counter[int] = Counter()
    selected: list[LogEntry] = []
    judge = SeverityJudge()
    for line in log.lines:
        ordinal = counts[line.stamp]
        counts[line.stamp] += 1
        # Some lines of the oldest time may be missing. Without them, the ordinals that distinguish lines of
        # one time are unknown.
        if line.stamp < horizon or (line.stamp == log.horizon and not log.whole):
            continue
        entries = entries_of(log.name, line.stamp, ordinal, line.text, judge)
        selected += [entry for entry in entries if selection.has(entry, line.stamp)]
    return selected
