"""Limits the logs followed at the same time: each occupies a connection at the API server and a kubelet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

MOST = 128
TURN = 10.0
"""Seconds after which a log yields its slot if others wait."""


class Slots:
    """Slots for at most `most` holders at the same time. Others wait and alternate."""

    def __init__(self, most: int = MOST, turn: float = TURN) -> None:
        self.most = most
        self._turn = turn
        self._free = asyncio.Semaphore(most)
        self._waiting = 0
        self._limits: set[asyncio.Timeout] = set()

    @property
    def waiting(self) -> int:
        """Number of logs that wait for a slot."""
        return self._waiting

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Hold a slot. When others have waited long, the body is cancelled without an error."""
        self._waiting += 1
        if self._free.locked():
            self._end_turns()
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        limit = asyncio.timeout(self._turn if self._waiting else None)
        try:
            async with limit:
                self._limits.add(limit)
                yield
        except TimeoutError:
            if not limit.expired():
                raise
        finally:
            self._limits.discard(limit)
            self._free.release()

    def _end_turns(self) -> None:
        end = asyncio.get_running_loop().time() + self._turn
        for limit in self._limits:
            if limit.when() is None:
                limit.reschedule(end)
