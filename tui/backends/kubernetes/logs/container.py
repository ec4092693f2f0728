"""Reads the log of one container completely: all of its runs, each line once, across interruptions.

The end of a stream proves nothing: an API server without a connection to the kubelet ends a stream just like
that of an ended container. A run counts as read when a read that began after the run's end has returned
nothing new.
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
from tui.backends.kubernetes.logs.job_watch import PodView
from tui.backends.kubernetes.logs.lines.entries import ContainerName, entries_of
from tui.backends.kubernetes.logs.lines.merge import LineStream
from tui.backends.kubernetes.logs.lines.merged_log import MergedLog
from tui.backends.kubernetes.logs.lines.repeats import Repeats
from tui.backends.kubernetes.logs.lines.stamped import SECOND, LineSplitter, StampedLine, since_time, stamp_at
from tui.backends.kubernetes.logs.runs import ContainerState, Want, first_run, next_readable, want
from tui.backends.kubernetes.logs.slots import Slots
from tui.domain.core.log_entry import LogEntry
from tui.domain.log.judge import SeverityJudge

RECENT = 2000
REFUSALS = 4
"""Number of attempts to read an ended container's log before a refusal by the node is final."""
MOST_WAIT = 5.0
"""Maximum time between attempts to read a log, in seconds."""
EXPLAIN = 5.0
"""Seconds for the pod's status to show that its container was restarted."""
LOOK = 1.0
"""Maximum wait for a change of a pod before its log is checked again, in seconds."""


class End(Enum):
    """The outcome of a read."""

    WHOLE = auto()
    """The server ended the stream normally."""
    CUT = auto()
    GONE = auto()
    """The pod does not exist."""
    REFUSED = auto()
    """The log does not exist."""
    OTHER_RUN = auto()
    """The log belongs to another run of the container."""


@dataclass(slots=True)
class _Read:
    """One read of the log of a container's run."""

    run: int
    previous: bool
    follow: bool
    fresh: int = 0
    """Lines that were new."""
    end: End = End.CUT
    refused: str = ""
    splitter: LineSplitter = field(default_factory=LineSplitter)
    judge: SeverityJudge = field(default_factory=SeverityJudge)


class ContainerReader:
    """Reads one container. `run` ends when the pod can write no more lines, and raises permanent errors."""

    def __init__(  # noqa: PLR0917 - what it reads, from where and where to
        self,
        connection: ClusterConnection,
        name: ContainerName,
        view: PodView,
        out: MergedLog,
        source: LineStream,
        slots: Slots,
        since: int | None = None,
        once: bool = False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Read lines from `since` (ns) on, possibly with some earlier lines. `once` reads only existing
        lines."""
        self.name = name
        self._connection = connection
        self._view = view
        self._out = out
        self._slots = slots
        self.source = source
        self.begin = since
        self._once = once
        self._clock = clock
        self._repeats = Repeats()
        self._run = first_run(view.state_of(name.container), since)
        """The first run that has not been read completely."""
        self._last_run: int | None = None
        """The run of the newest line."""
        self._failures = 0
        self._ended_whole = False
        """The last read reached the end of an ended run."""
        self.refused = ""
        """The reason why the node does not return the log."""
        self._refusals = 0
        self.recent: deque[LogEntry] = deque(maxlen=RECENT)
        """The last entries, for comparison with Cloud Logging."""
        self.complete = False
        """All lines have been read."""
        self.rest_since: int | None = None
        """Time (ns) from which Cloud Logging must supply the log, because the pod is deleted."""
        self.reading_since: float | None = None
        """Event-loop time at which the open stream was opened."""

    @property
    def last(self) -> int | None:
        """Timestamp of the newest line by the node's clock."""
        return self._repeats.last

    @property
    def _state(self) -> ContainerState:
        return self._view.state_of(self.name.container)

    async def run(self) -> None:
        """Read the log to its end."""
        try:
            while not self._finished():
                await self._step()
        finally:
            self.source.close()
            self._out.failing(self.name, None)

    def _finished(self) -> bool:
        """Return whether no more lines can arrive: the log is complete, or Cloud Logging must supply the
        rest."""
        state, view = self._state, self._view
        read = want(self._run, state) is Want.WAIT
        if read and (view.pod.over or self._once):
            self.complete = True
        elif view.gone:
            # The stream ended and the pod is deleted: the container had ended.
            self.complete = read or (self._ended_whole and self._run == state.run)
            self.rest_since = None if self.complete else self._position()
        elif self.refused:
            self.rest_since = self._position()
        return self.complete or self.rest_since is not None

    def _position(self) -> int:
        """Return the time from which lines are missing."""
        known = (self.last, self.begin, self._view.pod.created, self._state.started)
        return next((stamp for stamp in known if stamp is not None), stamp_at(self._clock()))

    async def _step(self) -> None:
        state = self._state
        action = want(self._run, state)
        if action is Want.WAIT:
            self.source.rest()
            await self._view.changed(LOOK)
            return
        if action is Want.LOST:
            self._out.gap(gaps.lost_runs(self.name, self._run, state, self._position()))
            self._run = next_readable(state)
            return
        previous = action is Want.PREVIOUS
        read = _Read(self._run, previous, follow=not (previous or self._once) and state.running)
        over = previous or state.ended
        try:
            async with self._slots.turn():
                await self._perform(read)
        finally:
            self.reading_since = None
        await self._take_end(read, over)

    async def _perform(self, read: _Read) -> None:
        """Open the log and pass its lines on; sets `read.end`."""
        self._repeats.begin(same_file=self._last_run == read.run)
        name = self.name
        seconds_known = (self._repeats.since, None if self.begin is None else self.begin // SECOND)
        # It is unknown whether lines before the first selected line are new.
        since = max((second for second in seconds_known if second is not None), default=None)
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
                path, action=f"read the log of {name.words}", params=params
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
        """Pass a new line on. Return False if the log proves to belong to another run."""
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
        entries = entries_of(self.name, line.stamp, ordinal, line.text, read.judge)
        self.recent.extend(entries)
        selected = [entry for entry in entries if self._out.selects(entry, line.stamp)]
        self.source.add(line.stamp, selected, self._out.now())
        return True

    async def _other_run(self, read: _Read) -> bool:
        """Return whether the container was restarted: its log lacks lines that were read before."""
        if read.previous:
            return False
        end = self._out.now() + EXPLAIN
        while self._state.run == read.run and not self._view.gone and self._out.now() < end:
            with suppress(BackendError):
                await self._view.refresh()
            if self._state.run == read.run:
                await self._view.changed(LOOK)
        return self._state.run != read.run

    async def _take_end(self, read: _Read, over: bool) -> None:
        """Handle the end of a read. `over` is true if the run had already ended when the read began."""
        whole = read.end is End.WHOLE and self._repeats.caught_up
        followed, self._ended_whole = self._ended_whole, whole and over
        if read.end is End.OTHER_RUN:
            return
        if read.end is End.WHOLE and over:
            await self._take_last(read, followed)
            return
        if read.end is End.WHOLE and self._once and not read.previous:
            # Lines that arrive in the meantime would never end the read.
            self._run = read.run + 1
            return
        self.source.lose(self._out.now())
        if read.end is End.REFUSED:
            await self._take_refusal(read, over)
        elif read.end is not End.CUT:
            await self._reread_pod(read)
        else:
            await self._view.changed(backoff(max(1, self._failures), most=MOST_WAIT))

    async def _take_last(self, read: _Read, followed: bool) -> None:
        """Finish a run that was read after its end, unless the read returned something new.

        `followed` is true if an earlier stream reached the same end.
        """
        if read.fresh:
            # The server may have cut the stream before the end of the log.
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
        """Handle a log that the node should have but does not return."""
        self._refusals += 1
        if read.previous:
            state = self._state
            self._out.gap(
                gaps.lost_runs(self.name, self._run, replace(state, previous=False), self._position())
            )
            self._run = state.run
        elif over and self._refusals >= REFUSALS:
            self.refused = read.splitter.trouble or read.refused
        else:
            await self._view.changed(backoff(self._refusals, most=MOST_WAIT))

    async def _reread_pod(self, read: _Read) -> None:
        """Read the pod again: its container has ended, or the server has ended the stream."""
        before = self._state
        with suppress(BackendError):
            await self._view.refresh()
            state = self._state
            ended = self._view.gone or self._view.pod.deleting or state.ended or state.run != read.run
            self._ended_whole = read.end is End.WHOLE and self._repeats.caught_up and ended
        if self._state == before and not self._view.gone:
            await self._view.changed(LOOK)
