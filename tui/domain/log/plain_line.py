"""The severity that a line of plain text tells: klog's, a logging library's, or a traceback's first line.

Only the beginning of a line is read, and only words where a level stands: "INFO: no ERROR" is INFO.
"""

from __future__ import annotations

import re

from tui.domain.core.log_entry import Severity

BEGINNING = 96
"""Characters of a line within which its level stands."""
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
"""What stands after a level that names and dates precede."""
_LETTERS = re.compile(r"[A-SU-Ya-z]")
"""Not the T and the Z of a time."""
_ASSIGNED = re.compile(r"""\b(?:level|severity|lvl)["']?[=:] ?["']?(?P<level>[A-Za-z]{4,8})\b""")
_TRACEBACK = "Traceback (most recent call last):"


def severity_of(text: str) -> Severity | None:
    """The severity that the line says it has; `None` where it says none."""
    start = text[:BEGINNING]
    if start.startswith(_TRACEBACK):
        return Severity.ERROR
    found = _KLOG.match(start)
    if found is not None:
        return _KLOG_LEVELS[found["level"]]
    found = _LEVEL.search(start)
    if found is not None:
        # After a time a level may stand alone; in a sentence a word is no level.
        alone = _LETTERS.search(start, 0, found.start()) is None
        return Severity.parse(found[0]) if alone or _CLOSED.match(start, found.end()) else None
    found = _ASSIGNED.search(start) if "=" in start or ":" in start else None
    try:
        return Severity.parse(found["level"]) if found is not None else None
    except ValueError:
        return None
