"""Recognizes known lines of a container's log: the API's `sinceTime` is in whole seconds.

A line is identified by its time and its ordinal among lines of that time: a log is a file, so that equal
times come in the same order again. A read that begins at a whole second has either all lines of a time or
none.
"""

from __future__ import annotations

from tui.backends.kubernetes.logs.lines.stamped import SECOND

OVERLAP = 2
"""Seconds that a read starts earlier than necessary: a node's clock may be set back a little."""


class Repeats:
    """The lines of one container that the next read brings again.

    Call `begin` before each read and `fresh` for each of its lines. A new line while the read is not
    `caught_up` means that lines between the two are missing.
    """

    def __init__(self) -> None:
        self.last: int | None = None
        """Time of the newest line in file order."""
        self._counts: dict[int, dict[int, int]] = {}
        """Number of lines of each time, by second."""
        self._replayed: dict[int, int] | None = None
        self._goal: int | None = None
        """Newest line of the reads before, until this read reaches it."""

    @property
    def since(self) -> int | None:
        """Whole second at which the next read must begin; `None` for the start of the log."""
        return None if self.last is None else max(0, self.last // SECOND - OVERLAP)

    @property
    def caught_up(self) -> bool:
        """Whether this read has brought the newest line of the reads before, or need not."""
        return self._goal is None

    def begin(self, *, same_file: bool = True) -> None:
        """Start a read at `since`, of the newest line's file or of the next one."""
        self._goal = self.last if same_file else None
        self._replayed = None if self._goal is None else {}

    def is_known(self, stamp: int) -> bool:
        """Whether `fresh` would return `None` for a next line with this time."""
        known = self._counts.get(stamp // SECOND, {}).get(stamp, 0)
        return self._replayed is not None and self._replayed.get(stamp, 0) < known

    def fresh(self, stamp: int) -> int | None:
        """The ordinal of the line among those of its time, or `None` for a known line."""
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
        """Note that the newest line no longer exists: the log begins after it."""
        self._goal = self._replayed = None

    def _forget(self) -> None:
        # No later read brings lines of an earlier second.
        begin = self.since
        assert begin is not None
        for second in [second for second in self._counts if second < begin]:
            del self._counts[second]
