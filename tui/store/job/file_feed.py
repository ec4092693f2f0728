"""A file behind a log pane: the interface of a job's feed, answered from a file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Protocol

from tui.domain.job import Job
from tui.store.job.data_source import DataSource
from tui.store.job.feed import OlderLines
from tui.store.log.text_file import TextFile
from tui.store.log.view import LineSource

TICK = 0.1
AT_ONCE = 0.03
"""Seconds of counting lines before the event loop gets its turn."""


class LogFeed(Protocol):
    """What a log pane needs of a feed."""

    @property
    def buffer(self) -> LineSource: ...
    @property
    def job(self) -> Job | None: ...
    @property
    def sources(self) -> Mapping[str, DataSource]: ...
    @property
    def older_left(self) -> bool: ...
    def now(self) -> datetime: ...
    async def read_older(self) -> OlderLines: ...


class FileFeed:
    """Counts lines while `run` runs; calls `on_change` after each part."""

    job: Job | None = None
    older_left = False

    def __init__(self, file: TextFile, on_change: Callable[[], None]) -> None:
        self.buffer = file
        self.sources: Mapping[str, DataSource] = {"logs": DataSource("logs")}
        self._on_change = on_change

    def now(self) -> datetime:
        """The current time."""
        return datetime.now(UTC)

    async def read_older(self) -> OlderLines:
        """A file has no older lines to read."""
        return OlderLines(0)

    async def run(self) -> None:
        """Count the lines and those appended later, until cancelled."""
        source = self.sources["logs"]
        while True:
            before = (self.buffer.end, self.buffer.revision)
            whole = self.buffer.count_new_lines(AT_ONCE)
            source.read_at = self.now()
            if (self.buffer.end, self.buffer.revision) != before:
                self._on_change()
            await asyncio.sleep(TICK if whole else 0)
