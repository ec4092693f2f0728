"""Frame pacing: the time at which the next frame may be sent without queueing behind earlier frames.

Two methods measure the load of the line. Most terminals answer a cursor position request, which proves that
everything before the request has arrived, whatever buffers lie between. If the terminal never answers, writes
that had to wait reveal the line's rate, and the bytes sent since then are still in flight.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

ASK = "\x1b[6n"
"""Cursor position request."""
ASK_AFTER = 1024
"""Number of bytes after which a request is sent."""
FIRST_ANSWER = 0.15
"""Seconds that frames wait for the first answer, which shows whether the terminal answers at all."""
NO_ANSWER = 10.0
"""Seconds after which a terminal that never answered receives no more requests."""
LOST = 2.0
"""Seconds after which an answer counts as lost."""
QUEUE = 0.1
"""Seconds that a byte may be queued before the line counts as behind."""
MIN_WINDOW, MAX_WINDOW = 2048, 262_144
"""Minimum and maximum number of bytes that may be in flight without an answer."""
SHARE = 0.5
"""Fraction of a slow line for frames not caused by a key. The rest is reserved for keys."""
KEY_TAKES = 0.012
"""Seconds to wait for the changes that a key press causes before the frame is sent."""
KEY_LASTS = 0.5
"""Seconds after which a key press that caused no frame is forgotten."""
ROOM = 4096
"""Minimum number of bytes in the buffers when a write had to wait."""
FAST = 2_000_000
"""Rate in bytes per second at which a line counts as fast."""
GROW_AFTER, GROW = 10.0, 1.15
"""Seconds without a wait after which the rate is assumed to be higher, and the factor."""


@dataclass(slots=True)
class _Question:
    asked_at: float
    bytes: int
    frame: int


class FramePace:
    """Decides when frames are sent, by bytes and times; `clock` is in seconds. Only for the event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, ask: bool = True) -> None:
        self._clock = clock
        self._ask = ask
        self._questions: deque[_Question] = deque()
        self._answered = False
        self._unasked = 0
        self._on_way = 0
        self._window = 16_384
        self._least_trip = float("inf")
        self._rest_until = 0.0
        self._key_at: float | None = None
        self._rate: float | None = None
        self._rate_at = 0.0
        self._queued = 0.0
        self._queued_at = 0.0
        self._least_gap = 0.0
        self._last_frame = float("-inf")

    # Events

    def limit(self, frames_per_second: float) -> None:
        """Limit the frames per second. Frames caused by keys are exempt."""
        self._least_gap = 1 / frames_per_second

    def key(self) -> None:
        """Record a key press, whose frame has priority."""
        self._key_at = self._clock()

    def key_over(self) -> None:
        """Record that the key's change is done, so its frame need not wait longer."""
        if self._key_at is not None:
            self._key_at = min(self._key_at, self._clock() - KEY_TAKES)

    def sent(self, count: int) -> str:
        """Record a sent frame of `count` bytes. Return the text to write after the frame: a request or ""."""
        now = self._clock()
        if self._key_at is not None and now - self._key_at >= KEY_TAKES:
            self._key_at = None
        self._last_frame = now
        self._drain(now)
        self._queued += count
        if self._rate is not None and not self._answered:
            self._rest_until = now + self._queued / self._rate / SHARE
        self._unasked += count
        self._on_way += count
        if not self._ask or self._unasked < ASK_AFTER or self._gave_up(now):
            return ""
        self._questions.append(_Question(now, self._on_way, self._unasked))
        self._unasked = 0
        return ASK

    def answered(self) -> None:
        """Record that the terminal answered the oldest request."""
        if not self._questions:
            return
        now = self._clock()
        question = self._questions.popleft()
        self._answered = True
        self._on_way -= question.bytes
        for other in self._questions:
            other.bytes -= question.bytes
        trip = now - question.asked_at
        self._least_trip = min(trip, self._least_trip * 1.01)
        late = trip - self._least_trip
        if late > QUEUE:
            self._window = max(MIN_WINDOW, min(self._window, question.bytes) // 2)
            self._rest_until = now + late * (1 - SHARE) / SHARE
        elif question.bytes > self._window // 2:
            # Only a fully used window grows: small frames prove nothing.
            self._window = min(MAX_WINDOW, self._window + self._window // 4)

    def stalled(self, rate: float | None, at: float) -> None:
        """Record the writer's measurements: the line's rate, and the time of the last wait."""
        if rate is None or at <= self._rate_at:
            return
        now = self._clock()
        self._rate, self._rate_at = rate, at
        self._queued, self._queued_at = max(self._queued, float(ROOM)), now

    # Decisions

    @property
    def slow(self) -> bool:
        """Whether the line is known to be slow."""
        return self._clock() < self._rest_until or self._rate is not None

    def wait(self, behind: int) -> float:
        """Return the seconds until the next frame may be sent, 0 for now. `behind` is the number of unwritten
        bytes.

        If sending depends on an event (the writer is free, an answer), return the time until the next check.
        """
        now = self._clock()
        key = self._key_at is not None and now - self._key_at < KEY_LASTS
        if key and self._key_at is not None and now - self._key_at < KEY_TAKES and self.slow:
            return self._key_at + KEY_TAKES - now
        line = self._line(now, behind)
        if line > 0 or key:
            return line
        return max(0.0, self._rest_until - now, self._last_frame + self._least_gap - now)

    def _line(self, now: float, behind: int) -> float:
        """Return the seconds until the line is free."""
        if behind > 0 and (self._rate is not None or behind > MIN_WINDOW):
            return 0.02
        if self._answered:
            if self._questions and now - self._questions[0].asked_at > LOST:
                self._forget_questions()
            busy = self._on_way - self._unasked
            return 0.05 if self._questions and busy >= self._window else 0.0
        self._drain(now)
        if self._rate is None:
            return max(0.0, self._questions[0].asked_at + FIRST_ANSWER - now) if self._questions else 0.0
        return max(0.0, (self._queued - 512) / self._rate)

    def _drain(self, now: float) -> None:
        """Subtract the bytes transmitted since then, at the last known rate."""
        if self._rate is None:
            self._queued, self._queued_at = 0.0, now
            return
        self._queued = max(0.0, self._queued - self._rate * (now - self._queued_at))
        self._queued_at = now
        if now - self._rate_at > GROW_AFTER:
            self._rate, self._rate_at = self._rate * GROW, now
            if self._rate > FAST:
                self._rate = None

    def _gave_up(self, now: float) -> bool:
        if self._questions and not self._answered and now - self._questions[0].asked_at > NO_ANSWER:
            self._ask = False
            self._forget_questions()
        return not self._ask or len(self._questions) > 64

    def _forget_questions(self) -> None:
        self._questions.clear()
        self._on_way = self._unasked = 0
        self._answered = False
