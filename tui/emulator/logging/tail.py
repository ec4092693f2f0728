"""TailLogEntries: new entries, each once, ordered within a response.

A session receives every committed entry in the writer's thread, buffers the matching entries, and sends them
after the buffer window. The session ends when the client cancels; a client that has only finished its
requests still receives entries, because generated sample code relies on this. Faults
(`tui.emulator.logging.faults`) are off by default.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Sequence

from google.cloud.logging_v2.types import logging as logging_types
from google.rpc import code_pb2

from tui.emulator.logging.faults import LogFaults
from tui.emulator.logging.query.entries import filter_plan, owners
from tui.emulator.logging.query.plan import QueryPlan
from tui.emulator.logging.record import StoredEntry
from tui.emulator.logging.store import EntryStore
from tui.emulator.messages import Pb
from tui.emulator.rpc.methods import WireError, invalid

MAX_SESSIONS = 10
"""Maximum number of open tails of one project (docs/facts/vertex.md 5.3)."""
DEFAULT_WINDOW, MAX_WINDOW = 2.0, 60.0
"""Default and longest time in seconds for which entries wait for late entries (docs/facts/vertex.md 5.3)."""
MAX_MESSAGE = 1000
MAX_MESSAGE_BYTES = 2 * 1024 * 1024
"""Maximum size of a response in bytes, below the 4 MiB that a client accepts by default."""
MAX_BUFFERED = 200_000
MAX_BUFFERED_BYTES = 128 * 1024 * 1024
"""Size limit of a session's buffer in bytes. Further entries are only counted (NOT_CONSUMED)."""
BATCH_SECONDS = 0.05
"""Delay in seconds of the first entry after an idle period, which batches entries even with a window of 0."""
DUPLICATE_SECONDS = 2.0
"""Maximum delay of a duplicate entry in seconds."""

Response = logging_types.TailLogEntriesResponse.pb()
_NOT_CONSUMED = logging_types.TailLogEntriesResponse.SuppressionInfo.Reason.NOT_CONSUMED


class TailSessions:
    """The open tails of one store."""

    def __init__(self, store: EntryStore) -> None:
        self._store = store
        self._open: Counter[str] = Counter()

    async def serve(self, requests: AsyncIterator[Pb]) -> AsyncIterator[Pb]:
        """Run one session: the first request opens it, later requests have no effect.

        Raises WireError: INVALID_ARGUMENT, RESOURCE_EXHAUSTED for the eleventh session of a project,
        UNAVAILABLE for a broken stream (a fault).
        """
        first = await anext(aiter(requests), None)
        if first is None:
            return
        projects = owners("resource_names", first.resource_names)
        window = _window(first)
        plan = filter_plan(first.filter)
        for name in projects:
            if self._open[name] >= MAX_SESSIONS:
                raise WireError(
                    code_pb2.RESOURCE_EXHAUSTED,
                    f"{MAX_SESSIONS} tails of {name} are open, which is the limit; close one, or use "
                    "ListLogEntries",
                )
        session = TailSession(frozenset(projects), plan, window, self._store)
        self._open.update(projects)
        stop = self._store.listen(session.add)
        # Late entries; an entry that is stored at this moment may be sent twice, as in any network.
        session.add(self._store.late())
        try:
            while True:
                yield await session.next()
        finally:
            stop()
            session.close()
            self._open.subtract(projects)


def _window(request: Pb) -> float:
    if not request.HasField("buffer_window"):
        return DEFAULT_WINDOW
    window: float = request.buffer_window.seconds + request.buffer_window.nanos / 1e9
    if not 0 <= window <= MAX_WINDOW:
        raise invalid(("buffer_window", f"{window:g} s must be between 0 and {MAX_WINDOW:g} s"))
    return window


class TailSession:
    """The buffer of one client. The writer's thread calls `add`."""

    def __init__(self, owners: frozenset[str], plan: QueryPlan, window: float, store: EntryStore) -> None:
        self._owners = owners
        self._plan = plan
        self._window = window
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._lock = threading.Lock()
        self._arrived: deque[tuple[float, StoredEntry]] = deque()
        self._late: list[tuple[float, int, StoredEntry]] = []
        self._late_count = 0
        self._waiting_bytes = 0
        self._suppressed = 0
        self._ready: deque[StoredEntry] = deque()
        self._sources: dict[int, bool] = {}
        self._board = board = store.faults
        self._receipts = store.receipts
        self._began = self._loop.time()
        self._cut = False
        self._timer: asyncio.TimerHandle | None = None
        self._unlisten = board.listen(self._schedule_cut)
        self._schedule_cut(board.current)

    def close(self) -> None:
        """Release the session's resources."""
        self._unlisten()
        if self._timer is not None:
            self._timer.cancel()

    def _schedule_cut(self, faults: LogFaults) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if faults.cut_every:
            self._timer = self._loop.call_at(self._began + faults.cut_every, self._end)

    def _end(self) -> None:
        self._cut = True
        self._changed.set()

    def add(self, records: Sequence[StoredEntry]) -> None:
        """Buffer the matching entries among those just stored."""
        matching = [record for record in records if self._wants(record)]
        if not matching:
            return
        now, clock = time.monotonic(), self._receipts.time_ns()
        double = self._board.current.double_share
        with self._lock:
            for record in matching:
                ahead = record.row[6] - clock
                if ahead > 0:
                    self._delay(now + ahead / 1e9, record)
                elif (
                    len(self._arrived) + len(self._ready) >= MAX_BUFFERED
                    or self._waiting_bytes >= MAX_BUFFERED_BYTES
                ):
                    self._suppressed += 1
                    continue
                else:
                    self._arrived.append((now, record))
                    self._waiting_bytes += len(record.row[5])
                if double and random.random() < double:
                    self._delay(now + max(0, ahead) / 1e9 + random.random() * DUPLICATE_SECONDS, record)
        self._loop.call_soon_threadsafe(self._changed.set)

    def _delay(self, due: float, record: StoredEntry) -> None:
        self._late_count += 1
        heapq.heappush(self._late, (due, self._late_count, record))
        self._waiting_bytes += len(record.row[5])

    def _wants(self, record: StoredEntry) -> bool:
        source = record.source
        if source.id not in self._sources:
            self._sources[source.id] = (
                source.project in self._owners and self._plan.source(source) is not False
            )
        window, row = self._plan.window, record.row
        return bool(
            self._sources[source.id] and window.holds(row[1], row[3], row[6]) and self._plan.entry(record)
        )

    async def next(self) -> Pb:
        """Wait for the next response. Raises WireError: UNAVAILABLE for a fault."""
        while not self._cut:
            # Use a thread: sorting and building messages would block the event loop.
            response = await asyncio.to_thread(self._respond)
            if response is not None:
                return response
            await self._wait()
        raise WireError(code_pb2.UNAVAILABLE, "The stream was cut by `vxtui emulator fault tail`.")

    async def _wait(self) -> None:
        """Wait until the oldest entry is older than the window, or briefly after the first entry."""
        self._changed.clear()
        if self._cut:
            return
        with self._lock:
            oldest = self._arrived[0][0] if self._arrived else None
            if self._late:
                oldest = min(self._late[0][0], oldest if oldest is not None else self._late[0][0])
        if oldest is None:
            await self._changed.wait()
            await asyncio.sleep(BATCH_SECONDS)
        else:
            await asyncio.sleep(max(BATCH_SECONDS, oldest + self._window - time.monotonic()))

    # -- in a thread, one call at a time

    def _respond(self) -> Pb | None:
        if not self._ready:
            self._release()
        return self._message(self._take(), self._count_suppressed()) if self._ready else None

    def _release(self) -> None:
        """Move entries that are older than the window to the ready entries, in order."""
        now = time.monotonic()
        due = now - self._window
        with self._lock:
            while self._late and self._late[0][0] <= now:
                when, _, record = heapq.heappop(self._late)
                self._arrived.append((when, record))
            records = []
            while self._arrived and self._arrived[0][0] <= due:
                records.append(self._arrived.popleft()[1])
            if records:
                # Entries with a smaller key would be out of order in a later response.
                newest = max(record.key for record in records)
                late = [item for item in self._arrived if item[1].key < newest]
                if late:
                    records += [record for _, record in late]
                    self._arrived = deque(item for item in self._arrived if item[1].key >= newest)
        records.sort(key=lambda record: record.key)
        self._ready.extend(records)

    def _take(self) -> list[StoredEntry]:
        batch: list[StoredEntry] = []
        size = 0
        while self._ready and len(batch) < MAX_MESSAGE and size < MAX_MESSAGE_BYTES:
            batch.append(self._ready.popleft())
            size += len(batch[-1].row[5])
        with self._lock:
            self._waiting_bytes -= size
        if self._board.current.shuffle:
            random.shuffle(batch)
        return batch

    def _count_suppressed(self) -> int:
        with self._lock:
            count, self._suppressed = self._suppressed, 0
        return count

    def _message(self, records: Sequence[StoredEntry], suppressed: int) -> Pb:
        response = Response()
        for record in records:
            record.fill(response.entries.add())
        if suppressed:
            response.suppression_info.add(reason=int(_NOT_CONSUMED), suppressed_count=suppressed)
        return response
