"""What several tests share with test_backend_tail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from tests.waiting import LIMIT, until
from tests.wire.fake_vertex import START, Fake, connected
from tui.backends.interface import LogBatch, LogQuery
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.transport.connect import LOCAL_PACE, Pace
from tui.domain.core.log_entry import LogEntry, LogGap

NAME = "projects/p/locations/us-central1/customJobs/1"
PACE = replace(LOCAL_PACE, hold=0.1, state_poll=0.2, overlap=5.0, reconnect=0.2)
QUERY = LogQuery(NAME, since=START)


class Reader:
    """Follows in the background and keeps what came."""

    def __init__(self, found: VertexBackend, query: LogQuery = QUERY) -> None:
        self.entries: list[LogEntry] = []
        self.gaps: list[LogGap] = []
        self.notes: list[str] = []
        self.task = asyncio.create_task(self._run(found, query))

    async def _run(self, found: VertexBackend, query: LogQuery) -> None:
        async for batch in found.logs.tail(query):
            assert isinstance(batch, LogBatch)
            assert batch != LogBatch()
            self.entries += batch.entries
            self.gaps += batch.gaps
            if batch.note is not None:
                self.notes.append(batch.note)

    @property
    def texts(self) -> list[str]:
        return [entry.message for entry in self.entries]

    async def reach(self, count: int) -> None:
        await until(
            lambda: len(self.entries) >= count or self.task.done(), f"{count} entries of {len(self.entries)}"
        )
        assert len(self.entries) >= count, (self.texts, self.task)

    async def end(self) -> None:
        await asyncio.wait_for(self.task, LIMIT)


@asynccontextmanager
async def streaming(pace: Pace = PACE) -> AsyncIterator[tuple[Fake, Reader]]:
    """A running job whose log is followed: from its open stream to the end of the job."""
    fake = Fake()
    fake.add_job()
    async with connected(fake, pace) as found:
        reader = Reader(found)
        await until(lambda: fake.tails, "the stream")
        yield fake, reader
        fake.end(NAME)
        await reader.end()
