"""Reads the log of one container to its end: all of its runs, each line once, across any break.

A stream that ends tells nothing: an API server whose kubelet is gone ends it like one whose container is
over. A run counts as read when a read that began after its end has brought nothing new.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum, auto

from tui.backends.errors import (
    BackendError,
    InvalidRequest,
    NotFound,
    PermissionDenied,
    QuotaExceeded,
    Unauthenticated,
)
from tui.backends.kubernetes.connection import ClusterConnection, backoff
from tui.backends.kubernetes.logs import gaps
from tui.backends.kubernetes.logs.job_watch import ContainerNews
from tui.backends.kubernetes.logs.lines.entries import ContainerName, entries_of
from tui.backends.kubernetes.logs.lines.merge import LineStream
from tui.backends.kubernetes.logs.lines.merged_log import MergedLog
from tui.backends.kubernetes.logs.lines.repeats import Repeats
from tui.backends.kubernetes.logs.lines.stamped import SECOND, LineSplitter, StampedLine, since_time, stamp_at
from tui.backends.kubernetes.logs.runs import ContainerState, Want, first_run, next_readable, want
from tui.backends.kubernetes.logs.slots import Slots
from tui.domain.core.log_entry import LogEntry

RECENT = 2000
REFUSALS = 4
"""Attempts to read the log of an ended container that its node does not give."""
MOST_WAIT = 5.0
"""Longest time between two tries to read a log that can't be read (s)."""
EXPLAIN = 5.0
"""Seconds for the pod's status to say that its container was started again."""
LOOK = 1.0
"""Seconds to wait for news of a pod before its log is looked at again."""


class End(Enum):
    """How a read ended."""

    WHOLE = auto()
    """The server ended it in the usual way."""
    CUT = auto()
    GONE = auto()
    """There is no such pod."""
    REFUSED = auto()
    """There is no such log."""
    OTHER_RUN = auto()
    """It was the log of another run."""


@dataclass(slots=True)
class _Read:
    """One read of one run."""

    run: int
    previous: bool
    follow: bool
    fresh: int = 0
    """Lines that it brought first."""
    end: End = End.CUT
    refused: str = ""
    splitter: LineSplitter = field(default_factory=LineSplitter)


class ContainerReader:
    """One container. `run` ends when its pod has nothing more, and raises what trying again can't fix."""

    def __init__(  # noqa: PLR0917 - what it reads, from where and where to
        self,
        connection: ClusterConnection,
        name: ContainerName,
        news: ContainerNews,
        out: MergedLog,
        source: LineStream,
        slots: Slots,
        since: int | None = None,
        once: bool = False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Lines of `since` (ns) and later are read, perhaps some more. `once`: only what is there now."""
        self.name = name
        self._connection, self._news, self._out, self._slots = (
            connection, news, out, slots,
        )  # fmt: skip
        self.source = source
        self.begin = since
        self._once = once
        self._clock = clock
        self._repeats = Repeats()
        self._run = first_run(news.state, since)
        """The first run that was not read to its end."""
        self._last_run: int | None = None
        """The run of the newest line."""
        self._failures = 0
        self._ended_whole = False
        """The newest read came to the end of an ended run."""
        self.refused = ""
        """Why the node does not give the log."""
        self._refusals = 0
        self.recent: deque[LogEntry] = deque(maxlen=RECENT)
        """What was read last, to be found again in Cloud Logging."""
        self.complete = False
        """All that there was has been read."""
        self.rest_since: int | None = None
        """The log has to be read from elsewhere from this time on (ns): the pod is gone."""
        self.reading_since: float | None = None
        """When the open stream was opened, while one is open."""

    @property
    def last(self) -> int | None:
        """The node's time of the newest line."""
        return self._repeats.last

    async def run(self) -> None:
        """See the class."""
        try:
            while not self._finished():
                await self._step()
        finally:
            self.source.close()
            self._out.failing(self.name, None)

    def _finished(self) -> bool:
        """Whether nothing more can come: it is complete, or the rest has to come from elsewhere."""
        state, news = self._news.state, self._news
        read = want(self._run, state) is Want.WAIT
        if read and (news.over or self._once):
            self.complete = True
        elif news.gone:
            # The stream came to its end and the pod is gone: the container had ended.
            self.complete = read or (self._ended_whole and self._run == state.run)
            self.rest_since = None if self.complete else self._position()
        elif self.refused:
            self.rest_since = self._position()
        return self.complete or self.rest_since is not None

    def _position(self) -> int:
        """From when on lines are missing."""
        known = (self.last, self.begin, self._news.created, self._news.state.started)
        return next((stamp for stamp in known if stamp is not None), stamp_at(self._clock()))

    async def _step(self) -> None:
        state = self._news.state
        wanted = want(self._run, state)
        if wanted is Want.WAIT:
            self.source.rest()
            await self._news.changed(LOOK)
            return
        if wanted is Want.LOST:
            self._lose(state)
            return
        previous = wanted is Want.PREVIOUS
        read = _Read(self._run, previous, follow=not (previous or self._once) and state.running)
        over = previous or state.ended
        try:
            async with self._slots.turn():
                await self._perform(read)
        finally:
            self.reading_since = None
        await self._take_end(read, over)

    def _lose(self, state: ContainerState) -> None:
        self._out.gap(gaps.lost_runs(self.name, self._run, state, self._position()))
        self._run = next_readable(state)

    async def _perform(self, read: _Read) -> None:
        """Open the log and pass on what it brings; how it ended is in `read.end`."""
        self._repeats.begin(same_file=self._last_run == read.run)
        name = self.name
        asked = (self._repeats.since, None if self.begin is None else self.begin // SECOND)
        # Of lines before the first that was asked for nobody knows whether they are new.
        since = max((second for second in asked if second is not None), default=None)
        params = {
            "container": name.container,
            "timestamps": True,
            "follow": read.follow or None,
            "previous": read.previous or None,
            "sinceTime": since_time(since),
        }
        self.source.lose(self._out.now())
        path = f"/api/v1/namespaces/{name.namespace}/pods/{name.pod}/log"
        try:
            async with self._connection.stream(
                path, what=f"read the log of {name.words}", params=params
            ) as pieces:
                self.source.opened(self._out.now())
                self.reading_since = self._out.now()
                self._failures = 0
                self._out.failing(name, None)
                read.end = await self._pass_on(read, pieces)
        except NotFound:
            read.end = End.GONE
        except InvalidRequest as error:
            read.end, read.refused = End.REFUSED, error.message
            self._out.failing(name, error)
        except (PermissionDenied, Unauthenticated):
            raise
        except BackendError as error:
            self._failures += 1
            self._out.failing(name, error)
            if self._once and self._failures >= REFUSALS:
                self.refused = error.message
            if isinstance(error, QuotaExceeded) and error.retry_after:
                await asyncio.sleep(min(error.retry_after, MOST_WAIT))

    async def _pass_on(self, read: _Read, pieces: AsyncIterator[bytes]) -> End:
        async for piece in pieces:
            for line in read.splitter.feed(piece):
                if not await self._take(read, line):
                    return End.OTHER_RUN
            await self._out.room(self.source)
        return End.WHOLE

    async def _take(self, read: _Read, line: StampedLine) -> bool:
        """Pass on a line unless it was read before; False where it is of another run than was asked for."""
        repeats = self._repeats
        if not repeats.caught_up and not repeats.is_known(line.stamp):
            if await self._other_run(read):
                return False
            assert self.last is not None
            self._out.gap(gaps.rotated(self.name, self.last, line.stamp))
            repeats.skip()
        ordinal = repeats.fresh(line.stamp)
        if ordinal is None:
            return True
        read.fresh += 1
        self._last_run = read.run
        entries = entries_of(self.name, line.stamp, ordinal, line.text)
        self.recent.extend(entries)
        chosen = [entry for entry in entries if self._out.wanted(entry, line.stamp)]
        self.source.add(line.stamp, chosen, self._out.now())
        return True

    async def _other_run(self, read: _Read) -> bool:
        """Whether the container was started again, as a log that lacks what was read of it suggests."""
        if read.previous:
            return False
        end = self._out.now() + EXPLAIN
        while self._news.state.run == read.run and not self._news.gone and self._out.now() < end:
            with suppress(BackendError):
                await self._news.refresh()
            if self._news.state.run == read.run:
                await self._news.changed(LOOK)
        return self._news.state.run != read.run

    async def _take_end(self, read: _Read, over: bool) -> None:
        """What follows from the end of a read; `over`: its run had ended when it began."""
        whole = read.end is End.WHOLE and self._repeats.caught_up
        followed, self._ended_whole = self._ended_whole, whole and over
        if read.end is End.OTHER_RUN:
            return
        if read.end is End.WHOLE and over:
            await self._take_last(read, followed)
            return
        if read.end is End.WHOLE and self._once and not read.previous:
            # What comes meanwhile would have no end.
            self._run = read.run + 1
            return
        self.source.lose(self._out.now())
        if read.end is End.REFUSED:
            await self._take_refusal(read, over)
        elif read.end is not End.CUT:
            await self._look(read)
        else:
            await self._news.changed(backoff(max(1, self._failures), most=MOST_WAIT))

    async def _take_last(self, read: _Read, followed: bool) -> None:
        """A run was read after its end: that was all, unless it brought something new.

        `followed`: a stream before it came to that end as well.
        """
        if read.fresh:
            # What is behind it, if the server had cut it there.
            return
        for line in read.splitter.rest():
            await self._take(read, line)
        if read.splitter.trouble and self._last_run != read.run:
            await self._take_refusal(read, over=True)
            return
        if not self._repeats.caught_up and self.last is not None and not followed:
            self._out.gap(gaps.rotated(self.name, self.last, None))
        self._run = read.run + 1

    async def _take_refusal(self, read: _Read, over: bool) -> None:
        """The node does not give a log that it should have."""
        self._refusals += 1
        if read.previous:
            state = self._news.state
            self._out.gap(
                gaps.lost_runs(self.name, self._run, replace(state, previous=False), self._position())
            )
            self._run = state.run
        elif over and self._refusals >= REFUSALS:
            self.refused = read.splitter.trouble or read.refused
        else:
            await self._news.changed(backoff(self._refusals, most=MOST_WAIT))

    async def _look(self, read: _Read) -> None:
        """Read the pod anew: its container has ended, or the server has ended the stream."""
        before = self._news.state
        with suppress(BackendError):
            await self._news.refresh()
            state = self._news.state
            ended = self._news.gone or self._news.deleting or state.ended or state.run != read.run
            self._ended_whole = read.end is End.WHOLE and self._repeats.caught_up and ended
        if self._news.state == before and not self._news.gone:
            await self._news.changed(LOOK)
