"""The state of a followed log: its phase, and the data of the stream, the list and the holes.

Numbers are times of the event loop in seconds; datetimes are times of the service.
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
"""Seconds of an unreachable service after which the tail ends with the service's error."""
OUTAGE = 5.0
"""A hole that stays open for more seconds is reported, even if lists have filled it."""
FILLS = 2
"""Number of lists that search for suppressed entries before these count as lost."""
CLOCK_STEP = 1.0
"""Seconds by which the service's clock must gain on ours between two messages to count as set forward."""
NOTHING = LogBatch()


@dataclass(frozen=True, slots=True)
class HoleStart:
    """The point of the log at which a hole begins."""

    received: datetime | None
    """Service's receive time of the last entry before the hole; `None` if there is none."""
    newest: datetime | None
    """Timestamp of the newest entry known before the hole."""


@dataclass(slots=True)
class MissingRange:
    """Entries that a stream did not deliver, while lists search for them."""

    since: datetime | None
    """Timestamp of the newest entry known when the range began."""
    began: float
    reasons: list[str]
    lost: int = 0
    """Number of entries that the service reported as suppressed; 0 (unknown) after a broken stream."""
    filled: int = 0
    fills: int = 0


@dataclass(slots=True)
class Heartbeat:
    """Lists that check whether a quiet stream still delivers every entry. Times are in the event loop's
    clock."""

    due: float
    deaf_at: float | None = None
    """Time at which the stream counts as silent, because it has not delivered an entry that a heartbeat's
    list has found."""
    next_list: bool = False
    """Whether the next list is a heartbeat."""


class TailPhase(Enum):
    """The phases of a tail. A tail begins in HISTORY and then changes among the other phases in any order."""

    HISTORY = "stored entries are read"
    SEAM = "a stream is open; a list fills the gap before it"
    STREAMING = "the stream delivers every new entry"
    POLLING = "no stream is available: lists deliver new entries"
    DRAINING = "the job has ended: lists deliver the late entries"


@dataclass(slots=True, eq=False)
class OpenStream:
    """The open stream of the phases SEAM and STREAMING."""

    stream: Stream
    opened_at: float
    seam_open: bool = True
    """Whether the gap before the stream is still unfilled."""
    spoke: bool = False
    """Whether the stream has delivered entries."""
    heard: datetime | None = None
    """Newest receive time known when the stream's first message arrived."""


@dataclass(slots=True, eq=False)
class ListInProgress:
    """A list of new entries, which runs in parallel with the stream."""

    began_at: float
    stream: OpenStream | None
    """The stream that was open when the list began."""
    spoke: bool
    """Whether the stream had delivered entries when the list began."""
    fills: Sequence[HoleStart]
    """The gaps that this list fills."""
    heartbeat: bool
    """Whether the list checks that a quiet stream still delivers every entry."""
    task: asyncio.Task[None] | None = None
    reads_from: list[datetime | None] = field(default_factory=list)
    """Lower bound of the running list, by receive time; empty before and after the list."""


@dataclass(slots=True)
class Draining:
    """The phase after the end of the job."""

    since: float
    done: bool = False
    """Whether every entry has been delivered."""


@dataclass(slots=True)
class TailSchedule:
    """Times of the tail's next actions; `None` for an action that is not scheduled."""

    look_at: float
    """Time of the next read of the job's state."""
    keep_until: float
    """Time at which new entries are delivered even if the gap is not filled yet."""
    open_at: float | None = None
    """Time of the next attempt to open a stream."""
    list_at: float | None = None
    """Time of the next list."""

    def list_by(self, moment: float) -> None:
        """Schedule a list for `moment` at the latest."""
        self.list_at = min(self.list_at or moment, moment)


class Coverage:
    """The receive time up to which the log is complete, and the gaps that lists still have to fill."""

    def __init__(self, overlap: timedelta) -> None:
        self.lower: datetime | None = None
        """Earliest timestamp that an entry of the job can have."""
        self.received: datetime | None = None
        """Everything received before this time has arrived, except for stragglers within `overlap` before
        it."""
        self.seam: HoleStart | None = None
        """The point at which the next list begins while a hole is open, however far `received` advances."""
        self.seams: list[HoleStart] = []
        """The unfilled gaps, one before each stream, newest last.

        Several gaps exist if a list takes longer than a stream lasts.
        """
        self.overlap = overlap

    def advance(self, until: datetime | None) -> None:
        """Record that everything received before `until` has arrived."""
        self.received = latest(self.received, until)

    def begin(self) -> datetime | None:
        """Return the lower bound of the next list, by receive time."""
        return self._begin() if self.seam is None else self.seam.received

    def _begin(self) -> datetime | None:
        """Return `begin` for the case that no earlier entry is missing."""
        return None if self.received is None else self.received - self.overlap

    def open_seam(self, newest: datetime | None) -> None:
        """Record that a stream opens. `newest` is the timestamp of the newest known entry."""
        self.seams.append(HoleStart(self._begin(), newest))
        self.pin(newest)

    def pin(self, newest: datetime | None) -> None:
        """Record a hole that begins here, or another hole within it."""
        if self.seam is None:
            self.seam = HoleStart(self.begin(), newest)

    def fill(self, seams: Sequence[HoleStart]) -> None:
        """Record that a list has filled these gaps."""
        self.seams = [seam for seam in self.seams if not any(seam is filled for filled in seams)]


class Holes:
    """The range that a stream did not deliver, while lists search for it, and the gaps to report."""

    def __init__(self) -> None:
        self.missing: MissingRange | None = None
        self.gaps: list[LogGap] = []

    def open(self, newest: datetime | None, now: float) -> MissingRange:
        """Return the missing range. A new range begins after the entry with the timestamp `newest`."""
        if self.missing is None:
            self.missing = MissingRange(newest, now, [])
        return self.missing

    def close(self, filled: int, newest: datetime | None, now: float, *, last: bool) -> bool:
        """Count the entries that a list has returned and report the entries that are still missing.

        Return False if another list should search first.
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
    """Consecutive failures."""

    def __init__(self) -> None:
        self._count = 0
        self._since: float | None = None

    def delay(self, error: BackendError, now: float, reconnect: float) -> float:
        """Return the seconds to wait after another failure. Raises the error after `GIVE_UP` seconds of
        failures."""
        self._since = self._since if self._since is not None else now
        if now - self._since > GIVE_UP:
            raise error
        self._count += 1
        return delay(self._count, error, reconnect)

    def reset(self) -> None:
        """Record that the service has answered."""
        self._count, self._since = 0, None


class Delivery:
    """The data of a batch besides its entries: how the log is read, and that it was read at all."""

    def __init__(self) -> None:
        self.note = ""
        """Description of how the log is read; "" while a stream delivers it."""
        self.alive = False
        """Whether a list was read since the last batch."""
        self._sent_note = ""

    def batch(self, entries: Sequence[LogEntry], holes: Holes, begin: datetime | None) -> LogBatch:
        """Return the next batch, or `NOTHING`. `begin` is the receive time at which a reader may resume."""
        gaps, holes.gaps = tuple(holes.gaps), []
        note = None if self.note == self._sent_note else self.note
        self._sent_note = self.note
        alive, self.alive = self.alive, False
        batch = LogBatch(tuple(entries), gaps, note, alive=alive)
        return batch if batch == NOTHING else replace(batch, received=begin)


class Lateness:
    """The largest delay between an entry's own time and its receipt, in full seconds (`seconds`).

    After a step of the service's clock, entries from before the step appear late by the step. Comparing
    receive times on a stream with this machine's monotonic clock reveals the step.
    """

    def __init__(self) -> None:
        self.seconds = 0
        self._ahead: float | None = None
        """Maximum lead of a receive time over the monotonic clock, in seconds."""

    def add(self, receipt: Receipt, now: float) -> None:
        """Add the receipt of a message that arrived at `now` (s, monotonic)."""
        late = receipt.late
        if receipt.newest is not None:
            ahead = receipt.newest.timestamp() - now
            step = ahead - (ahead if self._ahead is None else self._ahead)
            self._ahead = ahead if self._ahead is None else max(self._ahead, ahead)
            late -= math.ceil(step) if step > CLOCK_STEP else 0
        self.seconds = max(self.seconds, late)
