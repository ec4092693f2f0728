"""A job's log: what is there now, and what comes, with nothing lost and nothing twice."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from google.cloud.logging_v2.types import (
    ListLogEntriesRequest,
    TailLogEntriesRequest,
)
from google.cloud.logging_v2.types import (
    logging as logging_types,
)
from google.protobuf import duration_pb2

from tui.backends import base
from tui.backends.vertex import convert, log_filter
from tui.backends.vertex.calls import TIMEOUT, Rate, read
from tui.backends.vertex.clients import Clients
from tui.backends.vertex.errors import translate
from tui.domain.entry import LogEntry, LogGap

PAGE = 1000
"""The most that entries.list gives (vertex facts 5.3)."""
REMEMBERED = 100_000
"""Entries remembered to tell a repeated one."""
OVERLAP = timedelta(seconds=10)
"""How far before the last entry a gap is filled again: entries may arrive late."""
_SESSION = 3600.0
_QUIET = 1.0


class Logs:
    """Logging of one project. `rate` is the budget of entries.list, shared by all its jobs."""

    def __init__(self, clients: Clients, project: str, rate: Rate, *, hold: float, window: float) -> None:
        self._clients = clients
        self._resource = f"projects/{project}"
        self._rate = rate
        self._hold = hold
        self._window = window

    async def pages(
        self, filter_: str, *, newest_first: bool = False, limit: int | None = None
    ) -> AsyncIterator[list[LogEntry]]:
        """Entries a page at a time."""
        token, left = "", limit
        while left is None or left > 0:
            await self._rate.turn()
            request = ListLogEntriesRequest(
                resource_names=[self._resource],
                filter=filter_,
                order_by="timestamp desc" if newest_first else "timestamp asc",
                page_size=PAGE if left is None else min(PAGE, left),
                page_token=token,
            )
            pager = await read(
                "read the log",
                partial(self._clients.logging.list_log_entries, request=request, retry=None, timeout=TIMEOUT),
            )
            response = None
            async for page in pager.pages:
                response = logging_types.ListLogEntriesResponse.pb(page)
                break
            if response is None:
                return
            found = [convert.entry(pb) for pb in response.entries]
            if found:
                yield found
            left = None if left is None else left - len(found)
            token = response.next_page_token
            if not token:
                return

    async def tail(self, filter_: str) -> AsyncIterator[base.LogBatch]:
        """What arrives from now on, until the service ends the session (hourly) or the caller does."""
        stop = asyncio.Event()

        async def requests() -> AsyncIterator[TailLogEntriesRequest]:
            seconds = int(self._window)
            yield TailLogEntriesRequest(
                resource_names=[self._resource],
                filter=filter_,
                buffer_window=duration_pb2.Duration(
                    seconds=seconds, nanos=int((self._window - seconds) * 1e9)
                ),
            )
            await stop.wait()

        try:
            stream = await self._clients.logging.tail_log_entries(
                requests=requests(), retry=None, timeout=_SESSION
            )
            try:
                async for answer in stream:
                    yield _batch(logging_types.TailLogEntriesResponse.pb(answer))
            finally:
                stop.set()
                stream.cancel()
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except Exception as error:
            raise translate(error, "follow the log") from error

    async def follow(
        self, query: base.LogQuery, job_id: str, ended: Callable[[], Awaitable[bool]]
    ) -> AsyncIterator[base.LogBatch]:
        """History, then the tail, merged in the order of keys within a short hold."""
        merge = Merge(self._hold)
        arrived: asyncio.Queue[base.LogBatch | base.BackendError] = asyncio.Queue(maxsize=64)
        opened = asyncio.Event()
        pump = asyncio.create_task(self._pump(query, job_id, arrived, opened), name=f"tail {job_id}")
        try:
            # The tail first and the history after it: nothing falls between the two.
            async with asyncio.timeout(5):
                await opened.wait()
        except TimeoutError:
            pass
        try:
            async for found in self.pages(log_filter.logs(query, [job_id])):
                yield base.LogBatch(tuple(merge.pass_through(found)))
            final = False
            looked = time.monotonic()
            while True:
                batch = await _get(arrived, min(self._hold, _QUIET) / 2)
                gaps: tuple[LogGap, ...] = ()
                if isinstance(batch, base.BackendError):
                    since = merge.newest - OVERLAP if merge.newest else query.since
                    async for found in self.pages(log_filter.logs(replace(query, since=since), [job_id])):
                        merge.add(found)
                elif batch is not None:
                    merge.add(batch.entries)
                    gaps = batch.gaps
                ready = merge.take(everything=final)
                if ready or gaps:
                    yield base.LogBatch(tuple(ready), gaps)
                if final and not ready:
                    return
                if batch is None and time.monotonic() - looked > _QUIET:
                    looked = time.monotonic()
                    if await ended():
                        since = merge.newest - OVERLAP if merge.newest else query.since
                        async for found in self.pages(log_filter.logs(replace(query, since=since), [job_id])):
                            merge.add(found)
                        final = True
        finally:
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)

    async def _pump(
        self,
        query: base.LogQuery,
        job_id: str,
        arrived: asyncio.Queue[base.LogBatch | base.BackendError],
        opened: asyncio.Event,
    ) -> None:
        """Keep a tail open. Each break is reported, so that the reader fills the hole from the list."""
        live = log_filter.logs(replace(query, since=None, until=None), [job_id])
        pause = 0.2
        while True:
            began = time.monotonic()
            asyncio.get_running_loop().call_later(0.3, opened.set)
            try:
                async for batch in self.tail(live):
                    opened.set()
                    pause = 0.2
                    await arrived.put(batch)
                reason: base.BackendError = base.Unavailable("the session ended")
            except base.BackendError as error:
                reason = error
            # Also when no tail is to be had (the 11th of a project): then the list alone is the log.
            full = isinstance(reason, base.QuotaExceeded)
            await asyncio.sleep(5.0 if full else pause)
            pause = min(1.0 if time.monotonic() - began > 5 else pause * 2, 5.0)
            await arrived.put(reason)


async def _get(
    queue: asyncio.Queue[base.LogBatch | base.BackendError], wait: float
) -> base.LogBatch | base.BackendError | None:
    try:
        async with asyncio.timeout(wait):
            return await queue.get()
    except TimeoutError:
        return None


def _batch(pb: Any) -> base.LogBatch:
    gaps = tuple(
        LogGap(datetime.now(UTC), info.suppressed_count, _REASONS.get(info.reason, "not delivered"))
        for info in pb.suppression_info
        if info.suppressed_count
    )
    return base.LogBatch(tuple(convert.entry(e) for e in pb.entries), gaps)


_REASONS = {1: "rate limit of the service", 2: "not read fast enough"}


class Merge:
    """Drops what was seen and puts what arrives within `hold` seconds of each other in order."""

    def __init__(self, hold: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._hold = hold
        self._clock = clock
        self._seen: OrderedDict[tuple[datetime, str, str], None] = OrderedDict()
        self._heap: list[tuple[tuple[datetime, str, str], float, LogEntry]] = []
        self.newest: datetime | None = None

    def pass_through(self, entries: list[LogEntry]) -> list[LogEntry]:
        """New ones of a list that is already in order: history need not wait."""
        return sorted((e for e in entries if self._new(e)), key=lambda e: e.key)

    def add(self, entries: tuple[LogEntry, ...] | list[LogEntry]) -> None:
        now = self._clock()
        for entry in entries:
            if self._new(entry):
                heapq.heappush(self._heap, (entry.key, now, entry))

    def take(self, *, everything: bool = False) -> list[LogEntry]:
        """Entries whose turn has come, in the order of their keys."""
        now, out = self._clock(), []
        while self._heap and (everything or now - self._heap[0][1] >= self._hold):
            out.append(heapq.heappop(self._heap)[2])
        return out

    def _new(self, entry: LogEntry) -> bool:
        if entry.key in self._seen:
            return False
        self._seen[entry.key] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        if self.newest is None or entry.timestamp > self.newest:
            self.newest = entry.timestamp
        return True
