"""Filters of log lines by replica, severity and pattern, an entire block at a time where possible."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import compress

from tui.domain.core.log_entry import LogEntry, Severity
from tui.domain.log.pattern import Pattern
from tui.store.log.lines import GAP, Line, Lines

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that are not shown literally: see `tui.domain.core.text.plain`."""


@dataclass(frozen=True, slots=True)
class LineFilter:
    """Selects the lines that a view shows. No `replicas` means all; a gap always passes unless `gaps` is
    false.

    `text` returns the text of an entry that `pattern` and `without` search: the shown text. `text` must
    return the message itself if the entry has neither a payload nor control characters.
    """

    replicas: frozenset[str] = frozenset()
    severity: Severity = Severity.DEFAULT
    pattern: Pattern | None = None
    without: Pattern | None = None
    """Pattern of entries to hide."""
    gaps: bool = True
    text: Callable[[LogEntry], str] = field(default=lambda entry: entry.message)

    @property
    def everything(self) -> bool:
        """Whether the filter passes every line."""
        return (
            not self.replicas
            and not self.severity
            and self.pattern is None
            and self.without is None
            and self.gaps
        )

    def test(self) -> Callable[[Line], bool]:
        """Return a function that checks whether a line passes."""
        replicas, least, text, gaps = self.replicas, self.severity, self.text, self.gaps
        search = self.pattern.matches if self.pattern else None
        bars = self.without.matches if self.without else None

        def passes(line: Line) -> bool:
            if not isinstance(line, LogEntry):
                return gaps and search is None
            if line.severity < least or (replicas and line.replica not in replicas):
                return False
            if search is None and bars is None:
                return True
            words = text(line)
            return (search is None or search(words)) and (bars is None or not bars(words))

        return passes

    def of(self, lines: Lines) -> list[int]:
        """Return the indexes of the lines that pass."""
        passing = self._by_columns(lines)
        if self.pattern is not None:
            passing = [at for at in passing if lines.severities[at] != GAP]
            passing = _matching(lines, passing, self.pattern, self.text)
        if self.without is not None:
            barred = set(_matching(lines, passing, self.without, self.text))
            passing = [at for at in passing if at not in barred]
        return passing

    def _by_columns(self, lines: Lines) -> list[int]:
        codes, least = lines.levels, self.severity // 100
        if not least and not self.replicas and self.gaps:
            return list(range(len(codes)))
        most = GAP if self.gaps else GAP - 1
        if not self.replicas:
            return list(compress(range(len(codes)), codes.translate(_passing(least, most))))
        names = self.replicas
        return [
            at
            for at, (code, name) in enumerate(zip(codes, lines.replicas, strict=True))
            if least <= code <= most and (name in names or code == GAP)
        ]


@cache
def _passing(least: int, most: int) -> bytes:
    """Return a table for `bytes.translate`: 1 for a severity code from `least` to `most`, else 0."""
    return bytes(least <= code <= most for code in range(256))


def _matching(
    lines: Lines, among: Sequence[int], pattern: Pattern, text: Callable[[LogEntry], str]
) -> list[int]:
    """Return the lines of `among` that the pattern matches."""
    if not among:
        return []
    whole = "\n".join(lines.texts)
    if lines.payloads or whole.count("\n") != len(lines) - 1 or _CONTROL.search(whole):
        return [at for at in among if _found(lines, at, pattern, text)]
    allowed = None if len(among) == len(lines) else set(among)
    return [at for at in pattern.among(whole, lines.texts) if allowed is None or at in allowed]


def _found(lines: Lines, at: int, pattern: Pattern, text: Callable[[LogEntry], str]) -> bool:
    if lines.severities[at] == GAP:
        return False
    message = lines.texts[at]
    if at not in lines.payloads and message.isprintable():
        return pattern.matches(message)
    line = lines.line(at)
    return isinstance(line, LogEntry) and pattern.matches(text(line))
