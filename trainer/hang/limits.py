"""Detect ranks of a node that have been without progress for too long. The module has no side effects and
reads only a clock."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from trainer.hang.heartbeat import DOWNLOADING, ENDING, STARTING

_MAX_DURATIONS = 64
"""Number of recent durations that are remembered for each phase."""
_MIN_DURATIONS = 3
"""Minimum number of durations that determine a phase's usual duration; the first, with compilation, does not
count."""
_LONGEST = 1.5
"""Allowed multiple of the longest duration so far, e.g. for a step with an evaluation."""
UNKNOWN = 10.0
"""Allowed multiple of the floor while the usual duration is unknown."""
_START = 30.0
"""Allowed multiple of the floor at the start, and in a script that does not report progress."""
_OWN_LIMITS = frozenset({DOWNLOADING, ENDING})
"""Phases that have their own timeout."""
SAFETY = 0.8
"""Fraction of a collective's timeout after which the collective is reported, because the timeout would end
the process."""


@dataclass(frozen=True, slots=True)
class RankSample:
    """The values of a rank's heartbeat; times are in seconds of the machine's monotonic clock."""

    ticks: int
    ticked_at: float
    phase: str
    collectives: int
    pending_since: float = 0.0
    pending_until: float = 0.0


@dataclass(frozen=True, slots=True)
class Stall:
    """A stall without progress for `seconds`; `usual` is the usual duration of a step, 0 if it is unknown.

    `certain` is false for a process that does not report its phases: it may be in a long operation. With
    `before_timeout`, a collective is about to fail.
    """

    seconds: float
    usual: float
    phase: str
    certain: bool = True
    before_timeout: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a stall: `factor` times the usual duration of a step (0: never), and at least `floor`
    seconds."""

    factor: float
    floor: float


class RankProgress:
    """Measures the steps of one rank, and the time since its last progress."""

    def __init__(self, limits: Limits, now: float) -> None:
        self._factor, self._floor = limits.factor, limits.floor
        self._durations: dict[str, deque[float]] = {}
        self._longest: dict[str, float] = {}
        self._last: RankSample | None = None
        self._moved_at = self._collectives_at = now
        self._first_in_phase = True
        self._paused = 0.0
        """Seconds since the last progress for which the machine or the container was suspended."""

    def pause(self, seconds: float) -> None:
        """Do not count `seconds` since the last update."""
        self._paused += seconds
        self._moved_at += seconds
        self._collectives_at += seconds

    def update(self, sample: RankSample, now: float) -> None:
        """Add a sample; called several times a second."""
        last, self._last = self._last, sample
        if last is None:
            self._moved_at = self._collectives_at = now
            return
        moved = sample.collectives != last.collectives
        if sample.phase != last.phase:
            # A phase without ticks, such as a save, counts as one duration.
            if sample.ticks == last.ticks:
                self._remember(last.phase, now - self._moved_at)
            self._moved_at, self._first_in_phase, self._paused = now, last.phase == STARTING, 0.0
        elif sample.ticks != last.ticks:
            count = sample.ticks - last.ticks
            duration = max(0.0, sample.ticked_at - last.ticked_at - self._paused) / count
            for _ in range(min(count - self._first_in_phase, _MIN_DURATIONS)):
                self._remember(sample.phase, duration)
            self._moved_at, self._first_in_phase = max(self._moved_at, sample.ticked_at), False
            self._paused = 0.0
        elif moved and sample.phase in ("", STARTING):
            if not self._first_in_phase:
                self._remember(sample.phase, now - self._moved_at)
            self._moved_at, self._first_in_phase, self._paused = now, False, 0.0
        if moved:
            self._collectives_at = now

    def _remember(self, phase: str, seconds: float) -> None:
        if phase != STARTING:
            self._longest[phase] = max(seconds, self._longest.get(phase, 0.0))
            self._durations.setdefault(phase, deque(maxlen=_MAX_DURATIONS)).append(max(0.0, seconds))

    def stall(self, now: float) -> Stall | None:
        """Return the stall, or None while the rank may still be working."""
        last = self._last
        if last is None or not self._factor:
            return None
        usual, seconds = self._usual(last.phase), now - self._moved_at
        if seconds >= self._limit(last.phase, usual, now):
            return Stall(seconds, usual, last.phase, bool(last.phase))
        until, since = last.pending_until, last.pending_since
        if until and now >= since + SAFETY * (until - since):
            return Stall(seconds, usual, last.phase, True, before_timeout=True)
        return None

    def left(self, now: float) -> float:
        """Return the seconds that the rank may still be without progress; infinite in a phase with its own
        timeout."""
        if self._last is None:
            return math.inf
        phase = self._last.phase
        return max(0.0, self._limit(phase, self._usual(phase), now) - (now - self._moved_at))

    def _usual(self, phase: str) -> float:
        known = self._durations.get(phase, ())
        return statistics.median(known) if len(known) >= _MIN_DURATIONS else 0.0

    def _limit(self, phase: str, usual: float, now: float) -> float:
        """Return the allowed seconds without progress in this phase."""
        limit = (_START if phase in ("", STARTING) else UNKNOWN) * self._floor
        if phase in _OWN_LIMITS:
            return math.inf
        if usual and now - self._collectives_at >= self._floor:
            limit = max(self._floor, self._factor * usual)
        return max(limit, _LONGEST * self._longest.get(phase, 0.0))

    @property
    def moved_at(self) -> float:
        """Time of the last progress."""
        return max(self._moved_at, self._collectives_at if not (self._last and self._last.phase) else 0.0)


def node_stall(ranks: Iterable[RankProgress], now: float) -> Stall | None:
    """Return the stall of the rank that progressed last, because a step ends either for all ranks of a run or
    for none."""
    stalls = [rank.stall(now) for rank in ranks]
    present = [stall for stall in stalls if stall is not None]
    if len(present) < len(stalls) and not any(stall.before_timeout for stall in present):
        return None
    return min(present, key=lambda stall: stall.seconds, default=None)
