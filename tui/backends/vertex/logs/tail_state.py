"""The state of a followed log: its phase, and the data of the stream, the list and the holes.

Times are the event loop's (s), unless they are datetimes: these are the service's.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import Enum

from tui.backends.interface import BackendError, LogBatch
from tui.backends.vertex.logs.convert import Receipt
from tui.backends.vertex.logs.stream import Stream
from tui.backends.vertex.timestamps import latest
from tui.backends.vertex.transport.retry import delay
from tui.domain.core.log_entry import LogEntry, LogGap

GIVE_UP = 180.0
"""Seconds of an unreachable service after which the tail ends with its error."""
OUTAGE = 5.0
"""A hole that stays open for longer is reported, though lists have filled it."""
FILLS = 2
"""Lists that search for suppressed entries before these count as lost."""
CLOCK_STEP = 1.0
"""Seconds by which the service's clock gains on ours between two messages only when it is set forward."""
NOTHING = LogBatch()


@dataclass(frozen=True, slots=True)
class HoleStart:
    """The start of a hole."""

    received: datetime | None
    """By the service's time of receipt; `None` where nothing was received before it."""
    newest: datetime | None
    """Timestamp of the newest entry known before it."""


@dataclass(slots=True)
class MissingRange:
    """Entries that a stream did not deliver, while lists search for them."""

    since: datetime | None
    """The newest entry known when it began."""
    began: float
    reasons: list[str]
    lost: int = 0
    """How many entries the service reported as suppressed; 0 (unknown) after a broken stream."""
    filled: int = 0
    fills: int = 0


@dataclass(slots=True)
class Heartbeat:
    """Lists that tell whether a quiet stream still brings what there is. Times are the event loop's."""

    due: float
    deaf_at: float | None = None
    """When the stream counts as silent, because it has not brought what such a list has found."""
    next_list: bool = False
    """The next list is a heartbeat."""


class TailPhase(Enum):
    """HISTORY is followed by SEAM, POLLING or DRAINING; any of these three and STREAMING by any other."""

    HISTORY = "stored entries are read"
    SEAM = "a stream is open; a list fills the seam before it"
    STREAMING = "the stream brings every new entry"
    POLLING = "no stream is available: lists bring new entries"
    DRAINING = "the job has ended: lists bring the late entries"


@dataclass(slots=True, eq=False)
class OpenStream:
    """The open stream of the phases SEAM and STREAMING."""

    stream: Stream
    opened_at: float
    seam_open: bool = True
    """The seam before the stream has not been filled."""
    spoke: bool = False
    """The stream has brought entries."""
    heard: datetime | None = None
    """Newest receipt of its first message."""


@dataclass(slots=True, eq=False)
class ListInProgress:
    """A list of new entries; the stream continues beside it."""

    began_at: float
    stream: OpenStream | None
    """The stream that was open when the list began."""
    spoke: bool
    """That stream had brought entries."""
    fills: Sequence[HoleStart]
    """The seams that this list fills."""
    heartbeat: bool
    """The list checks whether a quiet stream still brings every entry."""
    task: asyncio.Task[None] | None = None
    reads_from: list[datetime | None] = field(default_factory=list)
    """Receive-time lower bound of the running list; empty before and after it."""


@dataclass(slots=True)
class Draining:
    """The end of the job has been seen."""

    since: float
    done: bool = False
    """Every entry has been delivered."""


@dataclass(slots=True)
class TailSchedule:
    """When the tail acts next; `None`: not scheduled."""

    look_at: float
    """Next read of the job's state."""
    keep_until: float
    """New entries are delivered from then on, or once the seam has been filled."""
    open_at: float | None = None
    """Next attempt to open a stream."""
    list_at: float | None = None
    """Next list."""

    def list_by(self, moment: float) -> None:
        """List at that time at the latest."""
        self.list_at = min(self.list_at or moment, moment)


class Coverage:
    """The receive time up to which the log is complete, and the seams that lists still have to fill."""

    def __init__(self, overlap: timedelta) -> None:
        self.lower: datetime | None = None
        """Earliest timestamp that an entry of the job can have."""
        self.received: datetime | None = None
        """Everything received before this time has arrived, except for `overlap`."""
        self.seam: HoleStart | None = None
        """Where the next list begins while a hole is open, however far `received` moves on."""
        self.seams: list[HoleStart] = []
        """The unfilled seams, one before each stream, the newest last.

        A list may take longer than a stream lives: then there are several.
        """
        self.overlap = overlap

    def advance(self, until: datetime | None) -> None:
        """Everything received before `until` has arrived."""
        self.received = latest(self.received, until)

    def begin(self) -> datetime | None:
        """Receive-time lower bound of the next list."""
        return self._begin() if self.seam is None else self.seam.received

    def _begin(self) -> datetime | None:
        """`begin` if no earlier entry is missing."""
        return None if self.received is None else self.received - self.overlap

    def open_seam(self, newest: datetime | None) -> None:
        """A stream opens; `newest` is the timestamp of the newest known entry."""
        self.seams.append(HoleStart(self._begin(), newest))
        self.pin(newest)

    def pin(self, newest: datetime | None) -> None:
        """A hole opens here, or another one within it."""
        if self.seam is None:
            self.seam = HoleStart(self.begin(), newest)

    def fill(self, seams: Sequence[HoleStart]) -> None:
        """A list has filled these seams."""
        self.seams = [seam for seam in self.seams if not any(seam is filled for filled in seams)]


class Holes:
    """The range that a stream did not deliver, while lists search for it, and the gaps to report."""

    def __init__(self) -> None:
        self.missing: MissingRange | None = None
        self.gaps: list[LogGap] = []

    def open(self, newest: datetime | None, now: float) -> MissingRange:
        """The range that is missing now; a new one begins after the entry with the timestamp `newest`."""
        if self.missing is None:
            self.missing = MissingRange(newest, now, [])
        return self.missing

    def close(self, filled: int, newest: datetime | None, now: float, *, last: bool) -> bool:
        """Take the count of entries that a list has brought; report what is still missing.

        Returns False if another list should search first.
        """
        hole = self.missing
        if hole is None:
            return True
        hole.filled, hole.fills = hole.filled + filled, hole.fills + 1
        missing = max(0, hole.lost - hole.filled)
        if missing and hole.fills < FILLS and not last:
            return False
        if missing or (hole.filled and now - hole.began > OUTAGE):
            since = hole.since or datetime.now(UTC)
            reason = ", ".join(dict.fromkeys(hole.reasons)) or "reconnected"
            recovered = min(hole.filled, hole.lost) if hole.lost else hole.filled
            self.gaps.append(LogGap(since, missing, reason, newest, recovered))
        self.missing = None
        return True


class Failures:
    """Failures in a row."""

    def __init__(self) -> None:
        self._count = 0
        self._since: float | None = None

    def delay(self, error: BackendError, now: float, reconnect: float) -> float:
        """Seconds to wait after one more failure. Raises the error once it has failed for `GIVE_UP`."""
        self._since = self._since if self._since is not None else now
        if now - self._since > GIVE_UP:
            raise error
        self._count += 1
        return delay(self._count, error, reconnect)

    def reset(self) -> None:
        """The service has answered."""
        self._count, self._since = 0, None


class Delivery:
    """What a batch says beside its entries: the note on how the log is read, and that it is read at all."""

    def __init__(self) -> None:
        self.note = ""
        """How the log is read, as a sentence; "" while a stream brings it."""
        self.alive = False
        """A list was read since the last batch."""
        self._sent_note = ""

    def batch(self, entries: Sequence[LogEntry], holes: Holes, begin: datetime | None) -> LogBatch:
        """The next batch, or `NOTHING`; `begin` is the receive time at which a reader may resume."""
        gaps, holes.gaps = tuple(holes.gaps), []
        note = None if self.note == self._sent_note else self.note
        self._sent_note = self.note
        alive, self.alive = self.alive, False
        batch = LogBatch(tuple(entries), gaps, note, alive=alive)
        return batch if batch == NOTHING else replace(batch, received=begin)


class Lateness:
    """`seconds` is the most that an entry came after its own time, by whole seconds.

    An entry from before a step of the service's clock seems to come late by that step. Receipts on a stream
    are compared with this machine's monotonic clock, which shows the step.
    """

    def __init__(self) -> None:
        self.seconds = 0
        self._ahead: float | None = None
        """Seconds, the most, by which a receipt was ahead of the monotonic clock."""

    def add(self, receipt: Receipt, now: float) -> None:
        """Take the receipt of a message that came at `now` (s, monotonic)."""
        late = receipt.late
        if receipt.newest is not None:
            ahead = receipt.newest.timestamp() - now
            step = ahead - (ahead if self._ahead is None else self._ahead)
            self._ahead = ahead if self._ahead is None else max(self._ahead, ahead)
            late -= math.ceil(step) if step > CLOCK_STEP else 0
        self.seconds = max(self.seconds, late)
