"""A file behind a log pane: the interface of a job's feed, read from a file."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter
from typing import Protocol

from tui.backends.errors import Unavailable
from tui.domain.core.formatting import figure
from tui.domain.core.job import Job
from tui.store.job.data_source import DataSource
from tui.store.log.read_position import OlderLines
from tui.store.log.text_file import TextFile
from tui.store.log.text_input import TextInput
from tui.store.log.view import LineSource

TICK = 0.1
AT_ONCE = 0.03
"""Seconds of reading and counting lines before the event loop runs."""
MOST_COPIED = 8 * 1024**3
"""Limit, in bytes, on the text of a pipe or a compressed file that is stored on disk."""
LEFT_FREE = 512 * 1024**2
"""Bytes of free disk space that a copy leaves."""


class LogFeed(Protocol):
    """The part of a feed that a log pane uses."""

    @property
    def buffer(self) -> LineSource: ...
    @property
    def job(self) -> Job | None: ...
    @property
    def sources(self) -> Mapping[str, DataSource]: ...
    @property
    def replicas(self) -> Sequence[str]: ...
    @property
    def older_left(self) -> bool: ...
    def now(self) -> datetime: ...
    def silent_for(self) -> timedelta | None: ...
    def restarts(self) -> Sequence[datetime]: ...
    async def read_older(self) -> OlderLines: ...


class FileFeed:
    """Counts lines while `run` runs; calls `on_change` after each part."""

    job: Job | None = None
    older_left = False

    def __init__(self, path: Path) -> None:
        """Open the file. Raises OSError for a file that can't be read."""
        self.on_change: Callable[[], None] = lambda: None
        self._input: TextInput | None = TextInput(path)
        self._copied, self._copy = 0, -1
        if self._input.plain:
            self._end_copy()
            self.buffer = TextFile(path)
        else:
            with tempfile.TemporaryFile(prefix="vxtui-file-") as file:
                self._copy = os.dup(file.fileno())
            self.buffer = TextFile(path, self._copy)
        self.sources: Mapping[str, DataSource] = {"logs": DataSource("logs")}

    @property
    def replicas(self) -> list[str]:
        """Replicas that the lines name."""
        return list(self.buffer.replicas)

    def now(self) -> datetime:
        """Return the current time."""
        return datetime.now(UTC)

    def restarts(self) -> Sequence[datetime]:
        """Return nothing, because a file has no attempts."""
        return ()

    def silent_for(self) -> timedelta | None:
        """Return `None`, because a file is never silent."""
        return None

    async def read_older(self) -> OlderLines:
        """Return no lines, because a file has no older lines."""
        return OlderLines(0)

    async def run(self) -> None:
        """Count the lines, and lines appended later, until cancelled."""
        source = self.sources["logs"]
        while True:
            before = (self.buffer.end, self.buffer.revision, source.note, source.error)
            try:
                more = self._copy_some()
                whole = self.buffer.count_new_lines(AT_ONCE)
                source.error = None
                if not before[0] and self.buffer.end:
                    # The first lines of a file show whether the file names replicas.
                    next(self.buffer.columns(0, 1))
            except OSError as error:
                more, whole = False, True
                source.error = _unreadable(error)
                self._end_copy()
            source.note = source.note if self._copied else self.buffer.notice
            source.read_at = self.now()
            if (self.buffer.end, self.buffer.revision, source.note, source.error) != before:
                self.on_change()
            if source.error is not None:
                return
            await asyncio.sleep(0 if more or not whole else TICK)

    def close(self) -> None:
        """Close the file."""
        self._end_copy()
        self.buffer.close()

    def _copy_some(self) -> bool:
        """Copy text from a pipe or compressed file. Return whether more is available now. Raises OSError."""
        until = perf_counter() + AT_ONCE
        while self._input is not None:
            data = self._input.read()
            if data is None:
                return False
            if not data:
                self._end_copy()
                break
            disk = os.fstatvfs(self._copy)
            free = disk.f_bavail * disk.f_frsize
            if self._copied + len(data) > MOST_COPIED or free - len(data) < LEFT_FREE:
                self.sources["logs"].note = f"cut after {figure(self._copied)}B: the rest is not stored"
                self._end_copy()
                break
            os.pwrite(self._copy, data, self._copied)
            self._copied += len(data)
            if perf_counter() > until:
                return True
        return False

    def _end_copy(self) -> None:
        if self._input is not None:
            self._input.close()
            self._input = None


def _unreadable(error: OSError) -> Unavailable:
    return Unavailable(f"The file can't be read: {error.strerror or error}.", fix="")
