"""Recognizes known lines of a container's log, because the API's `sinceTime` has a resolution of one second.

A time and the ordinal among lines of that time identify a line: a log is a file, so lines of one time are
always returned in the same order. A read that begins at a full second returns either all lines of a time or
none.
"""

from __future__ import annotations

from tui.backends.kubernetes.logs.lines.stamped import SECOND

OVERLAP = 2
"""Seconds by which a read starts earlier than necessary, because a node's clock may be set back slightly."""


class Repeats:
    """Tracks the lines of one container that the next read returns again.

    Call `begin` before each read and `fresh` for each line of the read. A new line in a read that is not
    `caught_up` means that lines before it are missing.
    """

    def __init__(self) -> None:
        self.last: int | None = None
        """Time of the newest line in file order."""
        self._counts: dict[int, dict[int, int]] = {}
        """Number of lines of each time, by second."""
        self._replayed: dict[int, int] | None = None
        self._goal: int | None = None
        """Newest line of the previous reads, until this read reaches it."""

    @property
    def since(self) -> int | None:
        """The full second at which the next read must begin; `None` for the start of the log."""
        return None if self.last is None else max(0, self.last // SECOND - OVERLAP)

    @property
    def caught_up(self) -> bool:
        """Whether this read has returned the newest line of the previous reads, or need not."""
        return self._goal is None

    def begin(self, *, same_file: bool = True) -> None:
        """Start a read at `since`, of the newest line's file or of the next file."""
        self._goal = self.last if same_file else None
        self._replayed = None if self._goal is None else {}

    def is_known(self, stamp: int) -> bool:
        """Return whether `fresh` would return `None` for a next line with this time."""
        known = self._counts.get(stamp // SECOND, {}).get(stamp, 0)
        return self._replayed is not None and self._replayed.get(stamp, 0) < known

    def fresh(self, stamp: int) -> int | None:
        """Return the ordinal of the line among lines of the same time, or `None` for a known line."""
        counts = self._counts.get(stamp // SECOND)
        if counts is None:
            counts = self._counts[stamp // SECOND] = {}
        known = counts.get(stamp, 0)
        if self._replayed is not None:
            seen = self._replayed.get(stamp, 0)
            self._replayed[stamp] = seen + 1
            if stamp == self._goal and seen + 1 == known:
                # All lines that follow are new.
                self._goal = self._replayed = None
            if seen < known:
                return None
        counts[stamp] = known + 1
        last, self.last = self.last, stamp
        if last is None or stamp // SECOND != last // SECOND:
            self._forget()
        return known

    def skip(self) -> None:
        """Record that the newest line no longer exists: the log begins after that line."""
        self._goal = self._replayed = None

    def _forget(self) -> None:
        # No later read returns lines of an earlier second.
        begin = self.since
        assert begin is not None
        for second in [second for second in self._counts if second < begin]:
            del self._counts[second]
