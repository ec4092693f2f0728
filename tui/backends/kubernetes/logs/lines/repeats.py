"""What of a container's log was read before, although the API asks from whole seconds on (`sinceTime`).

A line is known by its time and by which one of that time it is: a log is a file, so that equal times come
again in the same order. A read that begins at a whole second has either all lines of a time or none.
"""

from __future__ import annotations

from tui.backends.kubernetes.logs.lines.stamped import SECOND

OVERLAP = 2
"""Seconds that a read goes back further than it has to: a node's clock may be set back a little."""


class Repeats:
    """Knows the lines of one container that a next read would bring again.

    Call `begin` before each read and `fresh` for each of its lines. A line that is new while the read is not
    `caught_up` says that lines between the two are missing.
    """

    def __init__(self) -> None:
        self.last: int | None = None
        """The time of the newest line in the order of the file."""
        self._counts: dict[int, dict[int, int]] = {}
        """How many lines of each time were read, by the second."""
        self._replayed: dict[int, int] | None = None
        self._goal: int | None = None
        """The newest line before this read, while the read has not come to it."""

    @property
    def since(self) -> int | None:
        """The whole second that the next read has to begin at; `None` for the start of the log."""
        return None if self.last is None else max(0, self.last // SECOND - OVERLAP)

    @property
    def caught_up(self) -> bool:
        """The current read has brought the newest line of the one before, or need not."""
        return self._goal is None

    def begin(self, *, same_file: bool = True) -> None:
        """A new read starts at `since`, of the file that the newest line is in or of the next one."""
        self._goal = self.last if same_file else None
        self._replayed = None if self._goal is None else {}

    def is_known(self, stamp: int) -> bool:
        """Whether `fresh` would say of the next line, which has this time, that it was read before."""
        known = self._counts.get(stamp // SECOND, {}).get(stamp, 0)
        return self._replayed is not None and self._replayed.get(stamp, 0) < known

    def fresh(self, stamp: int) -> int | None:
        """Which line of this time it is, from 0; `None` for one that was read before."""
        counts = self._counts.get(stamp // SECOND)
        if counts is None:
            counts = self._counts[stamp // SECOND] = {}
        known = counts.get(stamp, 0)
        if self._replayed is not None:
            seen = self._replayed.get(stamp, 0)
            self._replayed[stamp] = seen + 1
            if stamp == self._goal and seen + 1 == known:
                # Nothing that follows was read before.
                self._goal = self._replayed = None
            if seen < known:
                return None
        counts[stamp] = known + 1
        last, self.last = self.last, stamp
        if last is None or stamp // SECOND != last // SECOND:
            self._forget()
        return known

    def skip(self) -> None:
        """The newest line is not there any more: the log begins after it."""
        self._goal = self._replayed = None

    def _forget(self) -> None:
        # Of an earlier second no read brings anything again.
        begin = self.since
        assert begin is not None
        for second in [second for second in self._counts if second < begin]:
            del self._counts[second]
