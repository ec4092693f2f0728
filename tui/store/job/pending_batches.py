"""Log batches between the tail that reads them and the feed that stores them."""

from __future__ import annotations

import asyncio

from tui.backends.interface import LogBatch

MOST_LINES = 50_000
"""Number of lines that may wait to be stored before the tail pauses."""


class PendingBatches:
    """Batches that were received and not stored yet; `put` waits while too many lines are pending."""

    def __init__(self) -> None:
        self._batches: list[LogBatch] = []
        self._lines = 0
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._stored = asyncio.Event()
        self._stored.set()

    async def put(self, batch: LogBatch) -> None:
        """Add a batch once the queue has room."""
        await self._room.wait()
        self._batches.append(batch)
        self._lines += len(batch.entries)
        if self._lines > MOST_LINES:
            self._room.clear()
        self._stored.clear()
        self._arrived.set()

    async def take(self) -> list[LogBatch]:
        """Wait for batches and remove all of them; call `mark_stored` once they are stored."""
        await self._arrived.wait()
        self._arrived.clear()
        batches, self._batches = self._batches, []
        self._lines = 0
        self._room.set()
        return batches

    def mark_stored(self) -> None:
        """Record that the batches taken last are stored."""
        if not self._batches:
            self._stored.set()

    async def wait_until_stored(self) -> None:
        """Wait until every batch is stored."""
        await self._stored.wait()
