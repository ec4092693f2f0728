"""Follows a log: history, then new entries, each once, until its job has ended.

`TailPhase` names the phases. The tail reads the history, opens a stream, then fills the gap between the two
with a list. The list is necessary because a stream has no resume token, and the service does not report the
time from which it listens. The same happens after every interruption. The list requests the entries that the
service received since shortly before the newest known receive time, so that it also finds entries that arrive
long after their own time. Duplicates are dropped by key. If no stream is available (10 per project,
docs/facts/vertex.md 5.3, shared by this machine), the log is polled.
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
from tui.backends.vertex.logs.merge import LogMerger
from tui.backends.vertex.logs.reader import Get, LogReader, WholeUntil
from tui.backends.vertex.logs.stream import Inbox, Stream, StreamEvent
from tui.backends.vertex.logs.tail_state import (
    NOTHING,
    Coverage,
    Delivery,
    Draining,
    Failures,
    Heartbeat,
    Holes,
    Lateness,
    ListInProgress,
    MissingRange,
    OpenStream,
    TailPhase,
    TailSchedule,
)
from tui.backends.vertex.timestamps import latest
from tui.backends.vertex.transport.budget import Lease
from tui.backends.vertex.transport.channels import Clients
from tui.backends.vertex.transport.malloc_trim import trim
from tui.domain.core.log_entry import LogEntry

STREAM_AGAIN = 60.0
"""Seconds before the next attempt to open a stream after the project's limit was reached."""
SETTLE = 1.0
"""Seconds between opening a stream and the list that fills the gap. New entries are held back in the
meantime, so that an older entry which only the list has does not follow them."""
SEAM = 5.0
"""Maximum time in seconds for which a failing list holds new entries back."""
REPEATS = timedelta(seconds=5)
"""Delay with which a stream may repeat an entry. Its key is stored for that much longer."""
MOST_DRAIN = float(convert.MOST_LATE)
"""Maximum wait in seconds after a job's end for entries that are as late as earlier entries were."""
SILENT = "the open stream delivers no entries"
DEAF_SECONDS = 3.0
"""Seconds beyond the overlap within which a working stream delivers the entries that a list has found."""


class LogTail:
    """One followed log. `follow` may be run only once."""

    def __init__(self, clients: Clients, project: str, get: Get, logs: LogReader, query: LogQuery) -> None:
        self._clients = clients
        self._project = project
        self._get = get
        self._logs = logs
        self._query = query
        self._pace = clients.endpoint.pace
        now = self._now()
        self._events = Inbox()
        self._merger = LogMerger(self._pace.hold)
        self._coverage = Coverage(timedelta(seconds=self._pace.overlap))
        self._holes = Holes()
        self._failures = Failures()
        self._delivery = Delivery()
        self._lateness = Lateness()
        self._times = TailSchedule(look_at=now + self._pace.state_poll, keep_until=now)
        self._beat = Heartbeat(now + self._pace.heartbeat)
        self._lease: Lease | None = None
        self._open_stream: OpenStream | None = None
        self._list: ListInProgress | None = None
        self._state_read: asyncio.Task[None] | None = None
        self._draining: Draining | None = None

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    @property
    def phase(self) -> TailPhase:
        """The current phase, once the history has been read."""
        if self._draining is not None:
            return TailPhase.DRAINING
        if self._open_stream is None:
            return TailPhase.POLLING
        return TailPhase.SEAM if self._open_stream.seam_open else TailPhase.STREAMING

    async def follow(self) -> AsyncGenerator[LogBatch, None]:
        """Yield batches until the job has ended and the last list found nothing new."""
        job = await self._get(self._query.job_name)
        self._coverage.lower = await self._logs.lower_bound(self._query)
        try:
            async for entries in self._history():
                yield LogBatch(entries)
            self._delivery.alive = True
            if not job.state.terminal:
                self._open()
            else:
                self._drain(self._now())
            while self._draining is None or not self._draining.done:
                await self._step()
                now = self._now()
                batch = self._batch(self._merger.ready(now) if now >= self._times.keep_until else [])
                if batch != NOTHING:
                    yield batch
            last = self._batch(self._merger.rest())
            if last != NOTHING:
                yield last
        finally:
            listing = self._list.task if self._list is not None else None
            reads = [task for task in (listing, self._state_read) if task is not None]
            for task in reads:
                task.cancel()
            await asyncio.gather(*reads, return_exceptions=True)
            if self._open_stream is not None:
                await self._open_stream.stream.close()
            self._release()

    async def interrupt(self, error: Exception) -> None:
        """End `follow` with this error once all queued events are handled."""
        await self._events.put(StreamEvent(stop=error))

    def _batch(self, entries: list[LogEntry]) -> LogBatch:
        return self._delivery.batch(entries, self._holes, self._coverage.begin())

    # HISTORY

    async def _history(self) -> AsyncGenerator[tuple[LogEntry, ...], None]:
        """Yield stored entries in pages, in order.

        Only entries that are stored by now are read: otherwise the history would never end, because pages of
        a busy log arrive more slowly than its lines (60 a minute, docs/facts/vertex.md 5.3). The list that
        fills the gap returns later entries.
        """
        # Select by receipt: a replica's clock may be ahead, and its entries still belong to the history.
        text = log_filter(self._query, since=self._coverage.lower, before=datetime.now(UTC))
        whole, token = WholeUntil(), ""
        while True:
            reply = await self._logs.page(text, (self._query.job_name,), token=token)
            newest = convert.receipt(reply.entries).newest
            self._coverage.received = whole.add(newest)
            fresh = self._merger.fresh(convert.entries(reply.entries), newest)
            self._forget()
            if fresh:
                yield tuple(fresh)
            token = reply.next_page_token
            if not token:
                return

    def _forget(self) -> None:
        """Drop keys that neither the stream nor the current or next list can repeat."""
        reads_from = self._list.reads_from if self._list is not None else []
        begins = [self._coverage.begin(), *reads_from]
        known = [begin for begin in begins if begin is not None]
        if len(known) == len(begins):
            self._merger.forget(min(known) - REPEATS)

    # Steps and events

    async def _step(self) -> None:
        """Wait for the next event or due step and handle it."""
        now, times = self._now(), self._times
        # Due steps come first, because a busy stream always has an event.
        if times.open_at is not None and now >= times.open_at:
            self._open()
        elif times.list_at is not None and now >= times.list_at and self._list is None:
            self._start_list(now)
        elif self._beat.deaf_at is not None and now >= self._beat.deaf_at:
            await self._replace_silent_stream(now)
        elif now >= times.look_at and self._may_read_state:
            self._state_read = asyncio.create_task(self._read_state())
        elif self._due_beat() is not None and now >= self._beat.due:
            self._beat.due, times.list_at, self._beat.next_list = now + self._pace.heartbeat, now, True
        else:
            event = await self._next_event()
            if event is not None:
                await self._handle(event, self._now())

    async def _next_event(self) -> StreamEvent | None:
        """Return the next event of the stream, or `None` when a step is due earlier."""
        due = self._merger.due
        if due is not None:
            due = max(due, self._times.keep_until)
        list_at = self._times.list_at if self._list is None else None
        look_at = self._times.look_at if self._may_read_state else None
        moments = [due, self._times.open_at, list_at, look_at, self._due_beat(), self._beat.deaf_at]
        known = [moment for moment in moments if moment is not None]
        left = max(0.0, min(known) - self._now()) if known else None
        with contextlib.suppress(asyncio.QueueEmpty):
            return self._events.get_nowait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left):
                return await self._events.get()
        return None

    async def _handle(self, event: StreamEvent, now: float) -> None:
        if event.stop is not None:
            raise event.stop
        if event.cut is not None:
            # The end of a replaced stream does not affect the current stream.
            if self._open_stream is not None and event.stream is self._open_stream.stream:
                await self._cut(event.cut, now)
        elif event.listed is not None:
            self._take_list(event.listed, now)
        elif event.ended is not None:
            self._take_state(event.ended, now)
        else:
            self._take_entries(event, now)

    # SEAM and STREAMING

    def _open(self) -> None:
        """Open a stream, or poll if none is available."""
        now = self._now()
        if self._lease is None:
            self._lease = self._logs.budget.lease()
        if self._lease is None:
            self._poll(
                now,
                STREAM_AGAIN,
                "other processes on this machine already follow as many logs as the project allows",
            )
            return
        text = log_filter(replace(self._query, since=None, received=None))
        self._open_stream = OpenStream(Stream(self._clients, self._project, text, self._events), now)
        self._beat.due = now + self._pace.heartbeat
        self._coverage.open_seam(self._merger.newest)
        self._times.open_at = None
        self._times.list_at = now + SETTLE
        self._times.keep_until = self._times.list_at + SEAM

    def _take_entries(self, event: StreamEvent, now: float) -> None:
        self._failures.reset()
        self._beat.deaf_at, self._beat.due = None, now + self._pace.heartbeat
        newest = self._merger.newest
        receipt = event.receipt
        self._merger.add(event.entries, now, receipt.newest)
        if event.entries:
            if self._open_stream is not None and self._open_stream.seam_open and not self._open_stream.spoke:
                self._take_first_entries(self._open_stream, receipt, now)
            # If a stream reports no receive times, a list can begin only at the entries' own times.
            whole = receipt.whole_until
            self._coverage.received = latest(self._coverage.received, whole) if whole else None
            self._lateness.add(receipt, now)
            self._forget()
        # New entries prove that the job runs.
        self._times.look_at = now + self._pace.state_poll
        lost = sum(count for _reason, count in event.suppressed)
        if lost:
            hole = self._open_hole(newest, now)
            hole.lost += lost
            hole.reasons += [reason for reason, _count in event.suppressed]
            self._times.list_by(now + SETTLE)

    def _take_first_entries(self, stream: OpenStream, receipt: Receipt, now: float) -> None:
        """Handle the first entries of the stream. From now on the stream delivers all new entries, so the
        list that fills the gap can begin."""
        stream.spoke, stream.heard = True, receipt.newest
        if self._times.list_at is None and self._list is None:
            self._times.list_at, self._times.keep_until = now, now + SEAM

    def _open_hole(self, newest: datetime | None, now: float) -> MissingRange:
        self._coverage.pin(self._merger.newest)
        return self._holes.open(newest, now)

    async def _cut(self, error: BackendError, now: float) -> None:
        """Schedule the next opening, or raise an error that retrying does not fix."""
        opened_at = await self._close_stream()
        if self._draining is not None:
            # Lists deliver the rest.
            return
        if isinstance(error, QuotaExceeded):
            self._release()
            self._poll(
                now, max(STREAM_AGAIN, error.retry_after or 0), "the project's stream quota is exhausted"
            )
            return
        if not isinstance(error, Unavailable):
            raise error
        self._open_hole(self._merger.newest, now)
        if now - opened_at > STREAM_AGAIN:
            # The stream had worked. Streams usually end after an hour, which is no failure.
            self._failures.reset()
        self._times.open_at = now + self._delay(error, now)

    async def _close_stream(self) -> float:
        """Close the stream. Return the time at which it was opened."""
        stream, self._open_stream = self._open_stream, None
        assert stream is not None
        await stream.stream.close()
        self._beat.deaf_at = None
        return stream.opened_at

    def _release(self) -> None:
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def _delay(self, error: BackendError, now: float) -> float:
        """Return the seconds to wait after one more failure. Raises the error after too many failures."""
        if self._clients.caller.closed:
            raise error
        return self._failures.delay(error, now, self._pace.reconnect)

    def _due_beat(self) -> float | None:
        """Return the time of the next heartbeat; `None` where lists are read anyway."""
        lists = self._times.list_at is not None or self._list is not None or self._draining is not None
        return None if self._open_stream is None or lists else self._beat.due

    async def _replace_silent_stream(self, now: float) -> None:
        """Poll, and open another stream later, because the current stream has not delivered the entries that
        a list has found."""
        self._beat.deaf_at = None
        if self._open_stream is not None:
            await self._close_stream()
            self._release()
            self._poll(now, STREAM_AGAIN, SILENT)

    # POLLING

    def _poll(self, now: float, again: float, why: str) -> None:
        """Read by lists for `again` seconds because no stream is available."""
        self._times.open_at = now + again
        self._times.list_by(now + self._pace.poll)
        self._delivery.note = f"read every {self._pace.poll:g} s instead of streamed: {why}"

    # DRAINING

    @property
    def _may_read_state(self) -> bool:
        return self._state_read is None and self._draining is None

    async def _read_state(self) -> None:
        """Read whether the job has ended. The stream continues, and an unreachable service proves nothing."""
        until = self._query.until
        past = until is not None and datetime.now(UTC) > until + self._coverage.overlap
        outcome: bool | Exception
        try:
            outcome = past or (await self._get(self._query.job_name)).state.terminal
        except NotFound:
            outcome = True
        except (Unavailable, QuotaExceeded):
            outcome = False
        except Exception as error:  # noqa: BLE001 - it is raised again where it is taken
            outcome = error
        await self._events.put(StreamEvent(ended=outcome))

    def _take_state(self, ended: bool | Exception, now: float) -> None:
        self._state_read, self._times.look_at = None, now + self._pace.state_poll
        if isinstance(ended, Exception):
            raise ended
        if ended and self._draining is None:
            self._drain(now)

    def _drain(self, now: float) -> None:
        """Read the remaining entries by lists, because the job has ended."""
        self._draining = Draining(now)
        self._times.list_at = now

    # Lists, in every phase

    def _start_list(self, now: float) -> None:
        stream = self._open_stream
        # Before its first message, the open stream may begin to listen only after the list was read.
        seams = self._coverage.seams
        fills = seams[:] if stream is None or stream.spoke else seams[:-1]
        listing = ListInProgress(
            now, stream, stream is not None and stream.spoke, fills, self._beat.next_list
        )
        self._times.list_at, self._beat.next_list = None, False
        self._list = listing
        listing.task = asyncio.create_task(self._run_list(listing))

    async def _run_list(self, listing: ListInProgress) -> None:
        """List the entries that the stream may have missed, while the stream continues."""
        outcome: int | Exception
        try:
            outcome = await self._list_new(listing)
        except Exception as error:  # noqa: BLE001 - it is raised again where it is taken
            outcome = error
        await self._events.put(StreamEvent(listed=outcome))

    async def _list_new(self, listing: ListInProgress) -> int:
        """Read the entries received since shortly before the newest known entry. Return the number of new
        entries."""
        coverage, stream = self._coverage, self._open_stream
        lower, begin = coverage.lower, coverage.begin()
        newest = self._merger.newest if coverage.seam is None else coverage.seam.newest
        if newest is not None and begin is None:
            # Without receive times, use the entries' own times.
            behind = newest - coverage.overlap
            lower = behind if lower is None else max(lower, behind)
        # The stream delivers entries received since its first message. Otherwise a list would run after a
        # busy log for ever.
        seam = stream is not None and stream.seam_open and self._draining is None
        heard = stream.heard if seam and stream is not None else None
        before = None if heard is None else heard + coverage.overlap
        text = log_filter(self._query, since=lower, received=begin, before=before)
        whole, token, fresh = WholeUntil(), "", 0
        until: datetime | None = None
        listing.reads_from = [begin]
        try:
            while True:
                reply = await self._logs.page(text, (self._query.job_name,), token=token, patience=2.0)
                received = convert.receipt(reply.entries).newest
                until = whole.add(received)
                fresh += self._merger.add(convert.entries(reply.entries), self._now(), received)
                token = reply.next_page_token
                if not token:
                    break
        finally:
            listing.reads_from = []
        if self._open_stream is None:
            coverage.advance(until)
        return fresh

    def _take_list(self, outcome: int | Exception, now: float) -> None:
        """Handle the end or failure of a list and schedule the next list."""
        listing, self._list = self._list, None
        assert listing is not None
        if isinstance(outcome, Exception):
            if not isinstance(outcome, Unavailable | QuotaExceeded):
                raise outcome
            self._times.list_at = now + max(0.2, self._delay(outcome, now))
            return
        fresh, stream, coverage = outcome, self._open_stream, self._coverage
        self._failures.reset()
        self._delivery.alive = True
        if fresh and listing.heartbeat and listing.stream is stream:
            self._beat.deaf_at = self._beat.deaf_at or now + self._pace.overlap + DEAF_SECONDS
        coverage.fill(listing.fills)
        if stream is None or coverage.seams:
            coverage.seam = coverage.seams[0] if coverage.seams else None
            self._forget()
        if coverage.seams and listing.stream is not stream:
            # The stream was interrupted in the meantime, and perhaps reopened: the newer gaps are not filled.
            if self._holes.missing is not None:
                self._holes.missing.filled += fresh
            self._times.list_by(now + SETTLE)
            return
        self._times.keep_until = now
        if self._draining is not None:
            self._drain_more(self._draining, listing, fresh, now)
        elif stream is None:
            self._times.list_at = now + self._pace.poll
            self._close_hole(fresh, now)
        elif stream.seam_open and not listing.spoke:
            # The stream may have begun to listen only after this list was read: another list searches the
            # range between them once the stream has delivered a message.
            self._times.list_at, self._delivery.note = (now if stream.spoke else None), ""
            self._search_hole(fresh, now)
        else:
            self._close_hole(fresh, now)

    def _drain_more(self, draining: Draining, listing: ListInProgress, fresh: int, now: float) -> None:
        """End after a list that began late enough and had no new entries; otherwise list again."""
        late = self._lateness.seconds
        wait = max(self._pace.drain, min(2 * late, MOST_DRAIN) if late > 1 else 0)
        if fresh == 0 and listing.began_at >= draining.since + wait:
            self._close_hole(fresh, now, last=True)
            draining.done = True
        self._times.list_at = now + (self._pace.poll if wait else 0.0)

    def _close_hole(self, fresh: int, now: float, *, last: bool = False) -> None:
        """Close the hole after a complete list, which has delivered everything before it."""
        if self._search_hole(fresh, now, last=last) and self._open_stream is not None:
            self._coverage.seam, self._delivery.note = None, ""
            self._open_stream.seam_open, self._open_stream.heard = False, None
            self._forget()
            asyncio.get_running_loop().run_in_executor(None, trim)

    def _search_hole(self, fresh: int, now: float, *, last: bool = False) -> bool:
        """Report the entries that are still missing, or list again. Return whether the hole is closed."""
        closed = self._holes.close(fresh, self._merger.newest, now, last=last)
        if not closed:
            self._times.list_at = now + SETTLE
        return closed
