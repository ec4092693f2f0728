"""Follows a log: history, then new entries, each once, until its job has ended.

History is read, then a stream opened, then a list fills the seam between the two: a stream has no resume
token, and the service does not say from when on it listens. The same happens after every cut. Such a list
asks for what the service has received since a little before the newest receipt known, which finds entries
that come long after their own time too; what it brings twice is dropped by its key. Where no stream is to
be had (10 a project, docs/facts/vertex.md 5.3, shared by all of this machine) the log is polled.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tui.backends.interface import BackendError, LogBatch, LogQuery, NotFound, QuotaExceeded, Unavailable
from tui.backends.vertex.logs import convert
from tui.backends.vertex.logs.convert import Receipt
from tui.backends.vertex.logs.filters import log_filter
from tui.backends.vertex.logs.holes import Heartbeat, HoleStart, MissingRange
from tui.backends.vertex.logs.lateness import Lateness
from tui.backends.vertex.logs.merge import LogMerger
from tui.backends.vertex.logs.reader import Get, LogReader, WholeUntil
from tui.backends.vertex.logs.stream import Inbox, Stream, StreamEvent
from tui.backends.vertex.timestamps import latest
from tui.backends.vertex.transport.budget import Lease
from tui.backends.vertex.transport.channels import Clients
from tui.backends.vertex.transport.malloc_trim import trim
from tui.backends.vertex.transport.retry import delay
from tui.domain.core.log_entry import LogEntry, LogGap

STREAM_AGAIN = 60.0
"""Seconds before the next attempt to open a stream when the project's limit is reached."""
GIVE_UP = 180.0
"""Seconds of an unreachable service after which the tail ends with its error."""
SETTLE = 1.0
"""After opening, before the list that makes sure of the seam. Till then what comes is kept back, so that
an older entry which only the list has does not come after it."""
SEAM = 5.0
"""Longest time that a failing list holds new entries back."""

OUTAGE = 5.0
"""Without a stream for longer than this the log visibly stalls: the hole is reported."""
REPEATS = timedelta(seconds=5)
"""How much later a stream may repeat an entry; its key is kept for so long beyond what lists repeat."""
MOST_DRAIN = float(convert.MOST_LATE)
"""Longest wait after a job's end for entries as late as earlier ones."""
NOTHING = LogBatch()
SILENT = "the open stream brings nothing"
DEAF_SECONDS = 3.0
"""Beyond the overlap: what a list has found, a stream that works brings within this time."""
FILLS = 2
"""Lists that search for entries which a stream suppressed, before they count as lost."""


class Tail:
    """One followed log. `follow` may be run once."""

    _done = False
    """Everything has been delivered."""
    _failures = 0
    _alive = False
    """A list was read since the last batch."""

    def __init__(self, clients: Clients, project: str, get: Get, logs: LogReader, query: LogQuery) -> None:
        self._clients = clients
        self._project = project
        self._get = get
        self._logs = logs
        self._query = query
        self._pace = clients.endpoint.pace
        self._overlap = timedelta(seconds=self._pace.overlap)
        self._merger = LogMerger(self._pace.hold)
        self._loop = asyncio.get_running_loop()
        self._events = Inbox()
        self._stream: Stream | None = None
        self._listing: asyncio.Task[None] | None = None
        self._lease: Lease | None = None
        self._text = log_filter(replace(query, since=None, received=None))
        self._lower: datetime | None = None
        self._received: datetime | None = None
        """Everything the service had received until then has arrived, except the overlap; by its clock."""
        self._heard: datetime | None = None
        """Newest receipt of the first message of a stream that was just opened."""
        self._opening = False
        """The seam before the open stream is not filled yet."""
        self._seam: HoleStart | None = None
        """Where the next list begins while a hole is open, however far `_received` moves on."""
        self._hole: MissingRange | None = None
        self._gaps: list[LogGap] = []
        self._lateness = Lateness()
        self._note = self._said = ""
        self._failing_since: float | None = None
        now = self._loop.time()
        self._opened_at = now
        self._open_at: float | None = None
        self._fill_at: float | None = None
        self._look_at = now + self._pace.state_poll
        self._looking: asyncio.Task[None] | None = None
        self._listed_at = now
        """When the newest list began."""
        self._under_way: list[datetime | None] = []
        """From which time of receipt on the list under way looks; empty while there is none."""
        self._list_of: Stream | None = None
        """The stream that was open when the newest list began."""
        self._spoke = self._list_spoke = False
        """The open stream has said something; it had when the newest list began."""
        self._seams: list[HoleStart] = []
        """Where the seam before each stream begins, the open one's last, of those that are not filled. A
        list may take longer than a stream lives: then there are several."""
        self._filling: list[HoleStart] = []
        """Those that the newest list fills."""
        self._ended_at: float | None = None
        self._beat = Heartbeat(now + self._pace.heartbeat)
        self._keep_until = now
        """Until then, or until the seam has been filled, nothing is delivered."""

    async def follow(self) -> AsyncGenerator[LogBatch, None]:
        """Batches until the job has ended and the last list found nothing new."""
        job = await self._get(self._query.job_name)
        self._lower = await self._logs.lower_bound(self._query)
        try:
            async for entries in self._history():
                yield LogBatch(entries)
            self._alive = True
            if not job.state.terminal:
                self._open()
            else:
                self._ended_at = self._loop.time()
                self._fill_at = self._ended_at
            while not self._done:
                await self._step()
                now = self._loop.time()
                batch = self._batch(self._merger.ready(now) if now >= self._keep_until else [])
                if batch != NOTHING:
                    yield batch
            last = self._batch(self._merger.rest())
            if last != NOTHING:
                yield last
        finally:
            reading = [task for task in (self._listing, self._looking) if task is not None]
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)
            if self._stream is not None:
                await self._stream.close()
            self._release()

    async def _history(self) -> AsyncGenerator[tuple[LogEntry, ...], None]:
        """Stored entries, a page at a time, in order.

        Only what is there now: pages of a busy log come more slowly than its lines (60 a minute,
        docs/facts/vertex.md 5.3), and would have no end. What comes meanwhile is in the seam.
        """
        # By receipt: a replica's clock may be ahead, and its entries are there all the same.
        text = log_filter(self._query, since=self._lower, before=datetime.now(UTC))
        whole, token = WholeUntil(), ""
        while True:
            reply = await self._logs.page(text, (self._query.job_name,), token=token)
            newest = convert.receipt(reply.entries).newest
            self._received = whole.add(newest)
            fresh = self._merger.fresh(map(convert.entry, reply.entries), newest)
            self._forget()
            if fresh:
                yield tuple(fresh)
            token = reply.next_page_token
            if not token:
                return

    def _batch(self, entries: list[LogEntry]) -> LogBatch:
        gaps, self._gaps = tuple(self._gaps), []
        note = None if self._note == self._said else self._note
        self._said = self._note
        alive, self._alive = self._alive, False
        found = LogBatch(tuple(entries), gaps, note, alive=alive)
        return found if found == NOTHING else replace(found, received=self._begin_of_list())

    def _begin_of_list(self) -> datetime | None:
        """Time of receipt from which on a list has to look."""
        return self._begin() if self._seam is None else self._seam.received

    def _begin(self) -> datetime | None:
        """`_begin_of_list`, assuming nothing earlier is missing."""
        return None if self._received is None else self._received - self._overlap

    def _pin(self) -> None:
        """A hole opens here, or another one within it."""
        if self._seam is None:
            self._seam = HoleStart(self._begin_of_list(), self._merger.newest)

    def _forget(self) -> None:
        """Forget keys that neither the stream nor the current or next list can repeat."""
        begins = [self._begin_of_list(), *self._under_way]
        known = [begin for begin in begins if begin is not None]
        if len(known) == len(begins):
            self._merger.forget(min(known) - REPEATS)

    async def _step(self) -> None:
        """Wait for the next event or due step and handle it."""
        now = self._loop.time()
        # Due steps first: a busy stream always has an event.
        if self._open_at is not None and now >= self._open_at:
            self._open()
        elif self._fill_at is not None and now >= self._fill_at and self._listing is None:
            self._fill_at, self._listed_at = None, now
            self._list_of, self._list_spoke = self._stream, self._spoke
            self._beat.this_list, self._beat.next_list = self._beat.next_list, False
            # The open stream may begin to listen only after the list was read, until it has spoken.
            sure = self._stream is None or self._spoke
            self._filling = self._seams[:] if sure else self._seams[:-1]
            self._listing = asyncio.create_task(self._list())
        elif self._beat.deaf_at is not None and now >= self._beat.deaf_at:
            await self._replace_silent_stream(now)
        elif now >= self._look_at and self._may_look:
            self._looking = asyncio.create_task(self._look())
        elif self._due_beat() is not None and now >= self._beat.due:
            self._beat.due, self._fill_at, self._beat.next_list = now + self._pace.heartbeat, now, True
        else:
            event = await self._next_event()
            if event is not None:
                await self._take(event, self._loop.time())

    async def _next_event(self) -> StreamEvent | None:
        """The next event of the stream, or `None` when a step is due before it."""
        due = self._merger.due
        if due is not None:
            due = max(due, self._keep_until)
        fill_at = self._fill_at if self._listing is None else None
        look_at = self._look_at if self._may_look else None
        times = [due, self._open_at, fill_at, look_at, self._due_beat(), self._beat.deaf_at]
        known = [t for t in times if t is not None]
        left = max(0.0, min(known) - self._loop.time()) if known else None
        with contextlib.suppress(asyncio.QueueEmpty):
            return self._events.get_nowait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left):
                return await self._events.get()
        return None

    def _due_beat(self) -> float | None:
        """When the next heartbeat is due; `None` where lists are read anyway."""
        reading = self._fill_at is not None or self._listing is not None or self._ended_at is not None
        return None if self._stream is None or reading else self._beat.due

    async def _replace_silent_stream(self, now: float) -> None:
        """Read by lists, and later open another stream: this one has not brought what a list has found."""
        self._beat.deaf_at = None
        if self._stream is not None:
            await self._close_stream()
            self._release()
            self._poll(now, STREAM_AGAIN, SILENT)

    async def _close_stream(self) -> None:
        assert self._stream is not None
        await self._stream.close()
        self._stream, self._opening, self._heard, self._beat.deaf_at = None, False, None, None

    def _open(self) -> None:
        now = self._loop.time()
        if self._lease is None:
            self._lease = self._logs.budget.lease()
        if self._lease is None:
            self._poll(now, STREAM_AGAIN, "others on this machine follow as many logs as the project may")
            return
        self._stream = Stream(self._clients, self._project, self._text, self._events)
        self._opening, self._heard, self._spoke = True, None, False
        self._opened_at, self._open_at = now, None
        self._beat.due = now + self._pace.heartbeat
        self._seams.append(HoleStart(self._begin(), self._merger.newest))
        self._pin()
        self._fill_at = now + SETTLE
        self._keep_until = self._fill_at + SEAM

    def _poll(self, now: float, again: float, why: str) -> None:
        """Read by lists for `again` seconds, because no stream is available."""
        self._open_at = now + again
        self._fill_at = min(self._fill_at or now + self._pace.poll, now + self._pace.poll)
        self._note = f"read every {self._pace.poll:g} s, not streamed: {why}"

    def _release(self) -> None:
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    async def interrupt(self, error: Exception) -> None:
        """End `follow` with this error, once what has arrived is taken."""
        await self._events.put(StreamEvent(stop=error))

    async def _take(self, event: StreamEvent, now: float) -> None:
        if event.stop is not None:
            raise event.stop
        if event.cut is not None:
            await self._cut(event.cut, now)
        elif event.listed is not None:
            self._take_list(event.listed, now)
        elif event.ended is not None:
            self._take_look(event.ended, now)
        else:
            self._take_entries(event, now)

    def _take_entries(self, event: StreamEvent, now: float) -> None:
        self._recovered()
        self._beat.deaf_at, self._beat.due = None, now + self._pace.heartbeat
        newest = self._merger.newest
        receipt = event.receipt
        self._merger.add(event.entries, now, receipt.newest)
        if event.entries:
            if self._opening and not self._spoke:
                self._first_word(receipt, now)
            # Without times of receipt on the stream there is nothing to begin a list at but entries' own.
            whole = receipt.whole_until
            self._received = latest(self._received, whole) if whole else None
            self._lateness.add(receipt, now)
            self._forget()
        # New entries mean that the job runs.
        self._look_at = now + self._pace.state_poll
        lost = sum(count for _reason, count in event.suppressed)
        if lost:
            hole = self._open_hole(newest, now)
            hole.lost += lost
            hole.reasons += [reason for reason, _count in event.suppressed]
            self._fill_at = min(self._fill_at or now + SETTLE, now + SETTLE)

    def _first_word(self, receipt: Receipt, now: float) -> None:
        """The stream now delivers everything new; the list that fills the gap before it can begin."""
        self._spoke, self._heard = True, receipt.newest
        if self._fill_at is None and self._listing is None:
            self._fill_at, self._keep_until = now, now + SEAM

    def _open_hole(self, newest: datetime | None, now: float) -> MissingRange:
        self._pin()
        if self._hole is None:
            self._hole = MissingRange(newest, now, [])
        return self._hole

    async def _cut(self, error: BackendError, now: float) -> None:
        """Schedule the next opening, or raise an error that retrying does not fix."""
        await self._close_stream()
        if self._ended_at is not None:
            # Lists deliver the rest.
            return
        if isinstance(error, QuotaExceeded):
            self._release()
            self._poll(now, max(STREAM_AGAIN, error.retry_after or 0), "the project's streams are taken")
            return
        if not isinstance(error, Unavailable):
            raise error
        self._open_hole(self._merger.newest, now)
        if now - self._opened_at > STREAM_AGAIN:
            # It had worked: streams usually end after an hour, which says nothing about the next one.
            self._recovered()
        self._open_at = now + self._failed(error, now)

    def _failed(self, error: BackendError, now: float) -> float:
        """Seconds to wait after one more failure; raises the error after too many."""
        self._failing_since = self._failing_since if self._failing_since is not None else now
        if now - self._failing_since > GIVE_UP or self._clients.caller.closed:
            raise error
        self._failures += 1
        return delay(self._failures, error, self._pace.reconnect)

    def _recovered(self) -> None:
        self._failures, self._failing_since = 0, None

    async def _list(self) -> None:
        """List what the stream may have missed, while the stream continues."""
        said: int | Exception
        try:
            said = await self._list_new()
        except Exception as error:  # noqa: BLE001 - it is raised again where it is taken
            said = error
        await self._events.put(StreamEvent(listed=said))

    def _take_list(self, found: int | Exception, now: float) -> None:
        """Handle the end or failure of a list; schedule the next."""
        self._listing = None
        if isinstance(found, Exception):
            if not isinstance(found, Unavailable | QuotaExceeded):
                raise found
            self._fill_at = now + max(0.2, self._failed(found, now))
            return
        self._recovered()
        self._alive = True
        if found and self._beat.this_list and self._list_of is self._stream:
            self._beat.deaf_at = self._beat.deaf_at or now + self._pace.overlap + DEAF_SECONDS
        self._seams = [seam for seam in self._seams if not any(seam is done for done in self._filling)]
        if self._stream is None or self._seams:
            self._seam = self._seams[0] if self._seams else None
            self._forget()
        if self._seams and self._list_of is not self._stream:
            # Cut meanwhile, and perhaps opened again: the newer seams are not filled.
            if self._hole is not None:
                self._hole.found += found
            self._fill_at = min(self._fill_at or now, now + SETTLE)
            return
        self._keep_until = now
        if self._opening and not self._list_spoke and self._ended_at is None:
            # The stream may have begun to listen only after this list was read: what came in between is
            # looked for once the stream has spoken.
            self._fill_at, self._note = (now if self._spoke else None), ""
            self._tell_hole(found, now)
            return
        if self._ended_at is None:
            if self._stream is None:
                self._fill_at = now + self._pace.poll
            self._close_hole(found, now)
            return
        late = self._lateness.seconds
        drain = max(self._pace.drain, min(2 * late, MOST_DRAIN) if late > 1 else 0)
        if found == 0 and self._listed_at >= self._ended_at + drain:
            self._close_hole(found, now, last=True)
            self._done = True
        self._fill_at = now + (self._pace.poll if drain else 0.0)

    def _close_hole(self, found: int, now: float, *, last: bool = False) -> None:
        """A list was read to its end: everything before it is complete."""
        if self._tell_hole(found, now, last=last) and self._stream is not None:
            self._seam, self._note = None, ""
            self._opening, self._heard = False, None
            self._forget()
            self._loop.run_in_executor(None, trim)

    def _tell_hole(self, found: int, now: float, *, last: bool = False) -> bool:
        """Report what is still missing, or search again; returns whether the hole is closed."""
        hole = self._hole
        if hole is None:
            return True
        hole.found, hole.fills = hole.found + found, hole.fills + 1
        missing = max(0, hole.lost - hole.found)
        if missing and hole.fills < FILLS and not last:
            self._fill_at = now + SETTLE
            return False
        if missing or (hole.found and now - hole.began > OUTAGE):
            since = hole.since or datetime.now(UTC)
            reason = ", ".join(dict.fromkeys(hole.reasons)) or "reconnected"
            filled = min(hole.found, hole.lost) if hole.lost else hole.found
            self._gaps.append(LogGap(since, missing, reason, self._merger.newest, filled))
        self._hole = None
        return True

    async def _list_new(self) -> int:
        """Read what the service received since shortly before the newest known entry; the count of new."""
        lower, begin = self._lower, self._begin_of_list()
        newest = self._merger.newest if self._seam is None else self._seam.newest
        if newest is not None and begin is None:
            # Without receive timestamps, use the entries' own.
            behind = newest - self._overlap
            lower = behind if lower is None else max(lower, behind)
        # What was received since the stream first spoke is the stream's to bring: else a list would run
        # after a busy log for ever.
        heard = self._heard if self._opening and self._ended_at is None else None
        before = None if heard is None else heard + self._overlap
        text = log_filter(self._query, since=lower, received=begin, before=before)
        whole, token, found = WholeUntil(), "", 0
        until: datetime | None = None
        self._under_way = [begin]
        try:
            while True:
                reply = await self._logs.page(text, (self._query.job_name,), token=token, patience=2.0)
                seen = convert.receipt(reply.entries).newest
                until = whole.add(seen)
                found += self._merger.add(map(convert.entry, reply.entries), self._loop.time(), seen)
                token = reply.next_page_token
                if not token:
                    break
        finally:
            self._under_way = []
        if self._stream is None:
            self._received = latest(self._received, until)
        return found

    @property
    def _may_look(self) -> bool:
        return self._looking is None and self._ended_at is None

    async def _look(self) -> None:
        """Read whether the job has ended, while the stream continues: a read that fails is tried for long."""
        until = self._query.until
        past = until is not None and datetime.now(UTC) > until + timedelta(seconds=self._pace.overlap)
        said: bool | Exception
        try:
            said = past or (await self._get(self._query.job_name)).state.terminal
        except NotFound:
            said = True
        except (Unavailable, QuotaExceeded):
            said = False
        except Exception as error:  # noqa: BLE001 - it is raised again where it is taken
            said = error
        await self._events.put(StreamEvent(ended=said))

    def _take_look(self, found: bool | Exception, now: float) -> None:
        """Where the job has ended the rest is read by lists."""
        self._looking, self._look_at = None, now + self._pace.state_poll
        if isinstance(found, Exception):
            raise found
        if found and self._ended_at is None:
            self._ended_at = self._fill_at = now
