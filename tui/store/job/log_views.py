"""The views of one log pane: the lines that pass the filter, the search matches, and the errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from time import perf_counter
from types import EllipsisType

from tui.domain.core.log_entry import LogEntry, Severity
from tui.domain.log.pattern import Pattern
from tui.domain.log.plain_line import continues
from tui.store.log.filters import LineFilter
from tui.store.log.lines import Line
from tui.store.log.view import LineSource, View

SCAN_LINES = 2_000
"""Number of lines scanned between checks of the clock."""
INTERLEAVED = 64
"""Errors of other replicas between two lines of a traceback."""
SCAN_FOR_KEY = 50_000
"""Number of lines scanned for one key press: about 20 ms."""


class LogViews:
    """The views behind a log pane. Callers read `shown` again after each change, because a new filter makes a
    new view. `text` returns the searched text."""

    def __init__(self, buffer: LineSource, text: Callable[[LogEntry], str]) -> None:
        self.buffer = buffer
        self.filter = LineFilter(text=text)
        self.pattern: Pattern | None = None
        self.only_matches = False
        self._lines = buffer.view(self.filter)
        self._matches: View | None = None
        self._errors: View | None = None

    @property
    def shown(self) -> View:
        """The lines to show."""
        return self._matches if self.only_matches and self._matches is not None else self._lines

    @property
    def searching(self) -> bool:
        """Whether some lines have not been searched yet."""
        return self._matches is not None and bool(self._matches.unscanned)

    def catch_up(self, seconds: float) -> bool:
        """Let each view scan new lines for about `seconds`. Return whether all lines are scanned."""
        views = [view for view in (self._lines, self._matches, self._errors) if view is not None]
        until = perf_counter() + seconds
        while views:
            views = [view for view in views if not view.catch_up(SCAN_LINES)]
            if perf_counter() > until:
                break
        return not views

    def set_filter(
        self,
        *,
        replicas: Iterable[str] | None = None,
        severity: Severity | None = None,
        without: Pattern | EllipsisType | None = ...,
    ) -> bool:
        """Show lines of these replicas (all if empty) with at least this severity, except those that match
        `without`. Omitted arguments stay unchanged. Return whether the filter changed."""
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

    def set_pattern(self, pattern: Pattern | None) -> bool:
        """Search for the pattern; `None` ends the search. Return whether the pattern changed."""
        if pattern == self.pattern:
            return False
        self.pattern = pattern
        self.only_matches = self.only_matches and pattern is not None
        self._search()
        return True

    def take_matches(self, pattern: Pattern, numbers: Iterable[int], scanned: int) -> None:
        """Use another search's matches before line `scanned`, if they fit the current filter and pattern."""
        plain = replace(self.filter, pattern=None).everything
        if self._matches is not None and pattern == self.pattern and plain:
            self._matches.take(numbers, scanned)

    def set_only_matches(self, only: bool) -> bool:
        """Hide lines that do not match, or show them again. Return whether that changed."""
        if self.pattern is None or only == self.only_matches:
            return False
        self.only_matches = only
        return True

    def _search(self) -> None:
        self._matches = self.buffer.view(replace(self.filter, pattern=self.pattern)) if self.pattern else None

    def found(self, line: Line | None) -> tuple[int, int] | None:
        """Return (matches up to this line, all matches) during a search."""
        if self._matches is None:
            return None
        return (self._matches.position(self.buffer.find(line) + 1) if line else 0), len(self._matches)

    def match(self, number: int, way: int, *, here: bool = False) -> int | None:
        """Return the number of the next match after line `number`, or before it with a negative `way`."""
        return None if self._matches is None else _neighbour(self._matches, number, way, here)

    def error(self, number: int, way: int, *, here: bool = False) -> int | None:
        """Return the number of the next error after line `number`, or before it with a negative `way`; a
        traceback is one error. `None` while `errors_unknown`, because the error may be in lines that are not
        searched yet."""
        if self._errors is None:
            minimum = max(self.filter.severity, Severity.ERROR)
            self._errors = self.buffer.view(replace(self.filter, severity=minimum, gaps=False))
        self._errors.catch_up(SCAN_FOR_KEY)
        if way < 0 and self.errors_unknown:
            # An error in an unsearched line may be nearer.
            return None
        error = _neighbour(self._errors, number, way, here)
        while error is not None and self._continues(self._errors, error):
            error = _neighbour(self._errors, error, way, False)
        return error

    def _continues(self, errors: View, number: int) -> bool:
        """Return whether the error on that line continues the previous error of its replica."""
        line, at = self.buffer[number], errors.position(number)
        if not isinstance(line, LogEntry) or line.json is not None:
            return False
        for before in range(at - 1, max(-1, at - 1 - INTERLEAVED), -1):
            earlier = self.buffer[errors.number(before)]
            if isinstance(earlier, LogEntry) and earlier.replica == line.replica:
                return continues(line.message, continues(earlier.message, False))
        return False

    @property
    def errors_unknown(self) -> bool:
        """Whether some lines have not been searched for errors yet; `catch_up` continues the search."""
        return self._errors is not None and bool(self._errors.unscanned)


def _neighbour(view: View, number: int, way: int, here: bool) -> int | None:
    """Return the view's next line after `number`, or before it. `here` includes the line itself."""
    if way > 0:
        at = view.position(number if here else number + 1)
    else:
        at = view.position(number + 1 if here else number) - 1
    return view.number(at) if 0 <= at < len(view) else None
