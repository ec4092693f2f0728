"""TailLogEntries: entries as they are stored, each once, in order within a response.

A session hears of every committed entry in the writer's thread, keeps those that it wants, and sends what
has waited for the buffer window. It ends when the client cancels; a client that has only finished
sending its requests still gets entries, as generated samples expect. What `log_faults` adds to that is
off unless asked for.
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

from tui.emulator.logging.faults import FaultBoard, LogFaults
from tui.emulator.logging.query import filter_plan, owners
from tui.emulator.logging.query_plan import QueryPlan
from tui.emulator.logging.record import Pb, Record
from tui.emulator.logging.store import LogStore
from tui.emulator.rpc.methods import WireError, invalid

MAX_SESSIONS = 10
"""Open tails of one project (vertex facts 5.3)."""
DEFAULT_WINDOW, MAX_WINDOW = 2.0, 60.0
"""Seconds that entries wait for late ones (vertex facts 5.3)."""
MAX_MESSAGE = 1000
MAX_MESSAGE_BYTES = 2 * 1024 * 1024
"""Below the 4 MiB that a client accepts by default."""
MAX_WAITING = 200_000
MAX_WAITING_BYTES = 128 * 1024 * 1024
"""What a session keeps for its client; newer entries are then counted instead (NOT_CONSUMED)."""
IDLE = 0.05
"""Seconds that the first entry after a silence waits for company, also with a window of 0."""
AGAIN = 2.0
"""Seconds within which a doubled entry comes again."""

Response = logging_types.TailLogEntriesResponse.pb()
_NOT_CONSUMED = logging_types.TailLogEntriesResponse.SuppressionInfo.Reason.NOT_CONSUMED


class Tails:
    """The open sessions of one store."""

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._open: Counter[str] = Counter()

    async def serve(self, requests: AsyncIterator[Pb]) -> AsyncIterator[Pb]:
        """One session: the first request opens it, later ones change nothing.

        Raises:
            WireError: INVALID_ARGUMENT, RESOURCE_EXHAUSTED for the eleventh of a project, UNAVAILABLE for
                a cut that was asked for.
        """
        first = await anext(aiter(requests), None)
        if first is None:
            return
        found = owners("resource_names", first.resource_names)
        window = _window(first)
        plan = filter_plan(first.filter)
        for name in found:
            if self._open[name] >= MAX_SESSIONS:
                raise WireError(
                    code_pb2.RESOURCE_EXHAUSTED,
                    f"{MAX_SESSIONS} tails of {name} are open already, which is the most; close one, or "
                    "read with ListLogEntries",
                )
        session = Session(frozenset(found), plan, window, self._store.faults)
        self._open.update(found)
        stop = self._store.listen(session.hear)
        # Entries on their way; one that is stored right now may be heard of twice, as from any network.
        session.hear(self._store.late())
        try:
            while True:
                yield await session.next()
        finally:
            stop()
            session.close()
            self._open.subtract(found)


def _window(request: Pb) -> float:
    if not request.HasField("buffer_window"):
        return DEFAULT_WINDOW
    window: float = request.buffer_window.seconds + request.buffer_window.nanos / 1e9
    if not 0 <= window <= MAX_WINDOW:
        raise invalid(("buffer_window", f"{window:g} s is not between 0 and {MAX_WINDOW:g} s"))
    return window


class Session:
    """What one client waits for. `hear` is called in the writer's thread."""

    def __init__(self, owners: frozenset[str], plan: QueryPlan, window: float, board: FaultBoard) -> None:
        self._owners = owners
        self._plan = plan
        self._window = window
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._lock = threading.Lock()
        self._arrived: deque[tuple[float, Record]] = deque()
        self._late: list[tuple[float, int, Record]] = []
        self._late_count = 0
        self._waiting_bytes = 0
        self._suppressed = 0
        self._ready: deque[Record] = deque()
        self._sources: dict[int, bool] = {}
        self._board = board
        self._began = self._loop.time()
        self._cut = False
        self._timer: asyncio.TimerHandle | None = None
        self._unlisten = board.listen(self._plan_cut)
        self._plan_cut(board.current)

    def close(self) -> None:
        """The client has gone."""
        self._unlisten()
        if self._timer is not None:
            self._timer.cancel()

    def _plan_cut(self, faults: LogFaults) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if faults.cut_every:
            self._timer = self._loop.call_at(self._began + faults.cut_every, self._end)

    def _end(self) -> None:
        self._cut = True
        self._changed.set()

    def hear(self, records: Sequence[Record]) -> None:
        """Keep what the client wants of entries that were just stored."""
        wanted = [record for record in records if self._wants(record)]
        if not wanted:
            return
        now, clock = time.monotonic(), time.time_ns()
        double = self._board.current.double_share
        with self._lock:
            for record in wanted:
                ahead = record.row[6] - clock
                if ahead > 0:
                    self._put_off(now + ahead / 1e9, record)
                elif (
                    len(self._arrived) + len(self._ready) >= MAX_WAITING
                    or self._waiting_bytes >= MAX_WAITING_BYTES
                ):
                    self._suppressed += 1
                    continue
                else:
                    self._arrived.append((now, record))
                    self._waiting_bytes += len(record.row[5])
                if double and random.random() < double:
                    self._put_off(now + max(0, ahead) / 1e9 + random.random() * AGAIN, record)
        self._loop.call_soon_threadsafe(self._changed.set)

    def _put_off(self, due: float, record: Record) -> None:
        self._late_count += 1
        heapq.heappush(self._late, (due, self._late_count, record))
        self._waiting_bytes += len(record.row[5])

    def _wants(self, record: Record) -> bool:
        source = record.source
        if source.id not in self._sources:
            self._sources[source.id] = (
                source.project in self._owners and self._plan.source(source) is not False
            )
        window, row = self._plan.window, record.row
        return bool(
            self._sources[source.id]
            and window.first <= row[1] <= window.last
            and row[3] >= window.severity
            and window.received <= row[6] <= window.received_last
            and self._plan.entry(record)
        )

    async def next(self) -> Pb:
        """The next response; it waits until there is something to say.

        Raises:
            WireError: UNAVAILABLE when the session is to be cut.
        """
        while not self._cut:
            # Sorting and building messages takes longer than the loop may be held up.
            response = await asyncio.to_thread(self._respond)
            if response is not None:
                return response
            await self._wait()
        raise WireError(code_pb2.UNAVAILABLE, "The stream was cut, as `vxtui emulator fault tail` asked.")

    async def _wait(self) -> None:
        """Until the oldest entry has waited for the window, or a little after the first one comes."""
        self._changed.clear()
        if self._cut:
            return
        with self._lock:
            oldest = self._arrived[0][0] if self._arrived else None
            if self._late:
                oldest = min(self._late[0][0], oldest if oldest is not None else self._late[0][0])
        if oldest is None:
            await self._changed.wait()
            await asyncio.sleep(IDLE)
        else:
            await asyncio.sleep(max(IDLE, oldest + self._window - time.monotonic()))

    # In a thread, one call at a time.

    def _respond(self) -> Pb | None:
        if not self._ready:
            self._release()
        return self._message(self._take(), self._count_suppressed()) if self._ready else None

    def _release(self) -> None:
        """Make ready, in order, what has waited for the window."""
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
                # What is older than these would only come out of order if it went on waiting.
                newest = max(record.key for record in records)
                late = [item for item in self._arrived if item[1].key < newest]
                if late:
                    records += [record for _, record in late]
                    self._arrived = deque(item for item in self._arrived if item[1].key >= newest)
        records.sort(key=lambda record: record.key)
        self._ready.extend(records)

    def _take(self) -> list[Record]:
        taken: list[Record] = []
        size = 0
        while self._ready and len(taken) < MAX_MESSAGE and size < MAX_MESSAGE_BYTES:
            taken.append(self._ready.popleft())
            size += len(taken[-1].row[5])
        with self._lock:
            self._waiting_bytes -= size
        if self._board.current.shuffle:
            random.shuffle(taken)
        return taken

    def _count_suppressed(self) -> int:
        with self._lock:
            count, self._suppressed = self._suppressed, 0
        return count

    def _message(self, records: Sequence[Record], suppressed: int) -> Pb:
        response = Response()
        for record in records:
            record.fill(response.entries.add())
        if suppressed:
            response.suppression_info.add(reason=int(_NOT_CONSUMED), suppressed_count=suppressed)
        return response
