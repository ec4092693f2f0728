"""The severity that a plain-text line indicates: klog's, a logging library's, or a traceback's first line.

Only the beginning of a line is read, and only words in the position of a level: "INFO: no ERROR" is INFO.
"""

from __future__ import annotations

import re

from tui.domain.core.log_entry import Severity

BEGINNING = 96
"""Characters of a line within which its level is searched."""
_KLOG = re.compile(r"(?P<level>[IWEFD])\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [^ ]{1,60}:\d+\]")
_KLOG_LEVELS = {
    "D": Severity.DEBUG,
    "I": Severity.INFO,
    "W": Severity.WARNING,
    "E": Severity.ERROR,
    "F": Severity.CRITICAL,
}
_LEVEL = re.compile(
    r"(?<![A-Za-z0-9_])(?:TRACE|DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|CRITICAL|FATAL)(?![A-Za-z0-9_])"
)
_CLOSED = re.compile(r" *[\])}>|:,]| +-")
"""What follows a level that is preceded by names and dates."""
_LETTERS = re.compile(r"[A-SU-Ya-z]")
"""Letters except the T and the Z of a time."""
_ASSIGNED = re.compile(r"""\b(?:level|severity|lvl)["']?[=:] ?["']?(?P<level>[A-Za-z]{4,8})\b""")
_TRACEBACK = "Traceback (most recent call last):"


def severity_of(text: str) -> Severity | None:
    """The severity that the line states; `None` if it states none."""
    start = text[:BEGINNING]
    if start.startswith(_TRACEBACK):
        return Severity.ERROR
    match = _KLOG.match(start)
    if match is not None:
        return _KLOG_LEVELS[match["level"]]
    match = _LEVEL.search(start)
    if match is not None:
        # After a time a level may be alone; in a sentence a word is no level.
        alone = _LETTERS.search(start, 0, match.start()) is None
        return Severity.parse(match[0]) if alone or _CLOSED.match(start, match.end()) else None
    match = _ASSIGNED.search(start) if "=" in start or ":" in start else None
    try:
        return Severity.parse(match["level"]) if match is not None else None
    except ValueError:
        return None
