"""The views that one look at a log needs: the lines that pass, those that match a search, the errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from time import perf_counter
from types import EllipsisType

from tui.domain.log_entry import LogEntry, Severity
from tui.store.log.filters import LineFilter
from tui.store.log.lines import Line
from tui.store.log.view import LineSource, View

PIECE = 2_000
"""Lines looked at between two looks at the clock."""


class LogViews:
    """Keep `shown` anew after each change: a new filter makes a new view. `text` is what is searched."""

    def __init__(self, buffer: LineSource, text: Callable[[LogEntry], str]) -> None:
        self.buffer = buffer
        self.filter = LineFilter(text=text)
        self.pattern: re.Pattern[str] | None = None
        self.only_matches = False
        self._lines = buffer.view(self.filter)
        self._hits: View | None = None
        self._errors: View | None = None

    @property
    def shown(self) -> View:
        """The lines to show."""
        return self._hits if self.only_matches and self._hits is not None else self._lines

    @property
    def searching(self) -> bool:
        """Not all lines have been searched yet."""
        return self._hits is not None and bool(self._hits.unscanned)

    def catch_up(self, seconds: float) -> bool:
        """Let each view look at lines that are new, for about this long; whether none is left."""
        views = [view for view in (self._lines, self._hits, self._errors) if view is not None]
        until = perf_counter() + seconds
        while views:
            views = [view for view in views if not view.catch_up(PIECE)]
            if perf_counter() > until:
                break
        return not views

    def set_filter(
        self,
        *,
        replicas: Iterable[str] | None = None,
        severity: Severity | None = None,
        without: re.Pattern[str] | EllipsisType | None = ...,
    ) -> bool:
        """Pass these replicas (an empty one: all) from this severity on, but for what matches `without`.

        What is not given stays as it is. Whether that is something new.
        """
        new = replace(
            self.filter,
            replicas=self.filter.replicas if replicas is None else frozenset(replicas),
            severity=self.filter.severity if severity is None else severity,
            without=self.filter.without if isinstance(without, EllipsisType) else without,
        )
        if new == self.filter:
            return False
        self.filter = new
        self._lines, self._errors = self.buffer.view(new), None
        self._search()
        return True

    def set_pattern(self, pattern: re.Pattern[str] | None) -> bool:
        """Search for this; `None` ends the search. Whether that is something new."""
        if pattern == self.pattern:
            return False
        self.pattern = pattern
        self.only_matches = self.only_matches and pattern is not None
        self._search()
        return True

    def take_matches(self, pattern: re.Pattern[str], numbers: Iterable[int], scanned: int) -> None:
        """Take over the matches before line `scanned` that another search has found, if they are wanted."""
        plain = replace(self.filter, pattern=None).everything
        if self._hits is not None and pattern == self.pattern and plain:
            self._hits.take(numbers, scanned)

    def set_only_matches(self, only: bool) -> bool:
        """Leave out what does not match, or show it again; whether that is something new."""
        if self.pattern is None or only == self.only_matches:
            return False
        self.only_matches = only
        return True

    def _search(self) -> None:
        self._hits = self.buffer.view(replace(self.filter, pattern=self.pattern)) if self.pattern else None

    def found(self, line: Line | None) -> tuple[int, int] | None:
        """(matches up to this line, matches in all), while something is searched."""
        if self._hits is None:
            return None
        return (self._hits.position(self.buffer.find(line) + 1) if line else 0), len(self._hits)

    def match(self, number: int, way: int, *, here: bool = False) -> int | None:
        """Number of the next match after line `number`, or before it with a negative `way`."""
        return None if self._hits is None else _beside(self._hits, number, way, here)

    def error(self, number: int, way: int, *, here: bool = False) -> int | None:
        """Number of the next error after line `number`, or before it with a negative `way`."""
        if self._errors is None:
            least = max(self.filter.severity, Severity.ERROR)
            self._errors = self.buffer.view(replace(self.filter, severity=least, gaps=False))
        self._errors.catch_up()
        return _beside(self._errors, number, way, here)


def _beside(view: View, number: int, way: int, here: bool) -> int | None:
    """The view's line after `number` or before it; with `here` the line itself counts too."""
    if way > 0:
        at = view.position(number if here else number + 1)
    else:
        at = view.position(number + 1 if here else number) - 1
    return view.number(at) if 0 <= at < len(view) else None
