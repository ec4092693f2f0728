"""The process that follows a job's log into the log store, as the console does, without a screen.

`python -m tests.benchmarks.soak_child STATE_DIR JOB_NAME LOG_FOLDER` prints a JSON line every few seconds
(`at` in seconds, `rss` in MB, `lines`, `cpu` in seconds) and one with `"done": true` when the job has ended
and everything has come.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

from tests.benchmarks.harness import cpu_seconds, memory_of
from tui.backends.interface import ContextInfo, LogBatch, LogQuery
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.transport.connect import LocalEndpoint
from tui.emulator.paths import StateDir
from tui.store.log.store import LogStore

PROJECT, REGION = "soak", "us-central1"
TICK = 0.1
"""Seconds between two writes to the store, as in the console's feed."""
TOLD_EVERY = 5.0
ROOM = 1 << 40
"""Bytes of log kept: all of them."""


class Follower:
    """What came and is not stored yet, and what was counted."""

    def __init__(self, folder: Path) -> None:
        self.store = LogStore(folder, max_bytes=ROOM)
        self.began = time.monotonic()
        self.twice = self.gaps = self.filled = 0
        self._waiting: list[LogBatch] = []
        self._told = self.began

    def take(self, batch: LogBatch) -> None:
        """Keep a batch for the next tick."""
        self._waiting.append(batch)
        self.gaps += sum(gap.count or 0 for gap in batch.gaps)
        self.filled += sum(gap.filled for gap in batch.gaps)

    def write(self) -> None:
        """Store what has come."""
        waiting, self._waiting = self._waiting, []
        entries = [entry for batch in waiting for entry in batch.entries]
        if entries:
            added = self.store.append(entries).added
            self.twice += len(entries) - added

    def tell(self, *, done: bool = False) -> None:
        """Print where it stands, every few seconds."""
        now = time.monotonic()
        if done or now - self._told >= TOLD_EVERY:
            self._told = now
            said = {
                "at": round(now - self.began, 1),
                "rss": round(memory_of(), 1),
                "lines": len(self.store),
                "cpu": round(cpu_seconds(), 2),
                "twice": self.twice,
                "missing": self.gaps,
                "done": done,
            }
            print(json.dumps(said), flush=True)


async def follow(state: StateDir, job: str, folder: Path) -> None:
    """Until the job has ended."""
    follower = Follower(folder)
    info = ContextInfo("local", PROJECT, (REGION,), local=True)

    async def ticks() -> None:
        while True:
            await asyncio.sleep(TICK)
            follower.write()
            follower.tell()

    async with VertexBackend(info, LocalEndpoint(state)) as backend:
        ticking = asyncio.create_task(ticks())
        async for batch in backend.logs.tail(LogQuery(job)):
            follower.take(batch)
        ticking.cancel()
    follower.write()
    follower.tell(done=True)
    follower.store.close()


if __name__ == "__main__":
    asyncio.run(follow(StateDir(Path(sys.argv[1])), sys.argv[2], Path(sys.argv[3])))
