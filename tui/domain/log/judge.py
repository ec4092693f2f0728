"""The severity of a log entry: the level that its line states, before the label of the service.

A service labels a line by its stream, and Python's `logging`, warnings and progress bars write to stderr,
which Vertex AI labels ERROR. The level in the line overrides a label that only reflects the stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tui.domain.core.log_entry import SERVICE, Severity
from tui.domain.log.json_line import stated_severity
from tui.domain.log.plain_line import BEGINNING, continues, fails, last_rewrite, severity_of

DEFAULT, INFO, ERROR = Severity.DEFAULT, Severity.INFO, Severity.ERROR
_DIGITS_AS_ZERO = bytes.maketrans(b"123456789", b"0" * 9)
MOST_SHAPES = 8_192
"""Maximum number of line shapes whose verdict is remembered."""
_ENVELOPE = frozenset({"message", "levelname", "attrs"})
"""Fields of the payload in which Vertex AI may wrap a line of text."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """The beginning of a line: its severity, or without a severity its relation to other lines."""

    severity: Severity | None
    fails: bool
    continues: bool
    ends: bool


_shapes: dict[bytes, _Shape] = {}
"""Known shapes. Lines of a log differ mostly in their digits, which do not affect the severity."""


def _learn(start: str) -> _Shape:
    if len(_shapes) >= MOST_SHAPES:
        _shapes.clear()
    shape = _Shape(severity_of(start), fails(start), continues(start, False), continues(start, True))
    _shapes[start.encode(errors="replace").translate(_DIGITS_AS_ZERO)] = shape
    return shape


class SeverityJudge:
    """Judges the lines of each source in order. A traceback has the severity of its first line."""

    def __init__(self) -> None:
        self._stdout: dict[str, Severity] = {}
        self._stderr: dict[str, Severity] = {}
        """Severity of the last line by source."""
        self._within: set[str] = set()
        """Sources whose last line continued the previous line."""

    def judge(
        self, source: str, label: Severity, text: str, payload: Mapping[str, Any] | None = None
    ) -> Severity:
        """Return the severity of the next line of `source`; the service labelled the line `label`. Only the
        labels ERROR, INFO and DEFAULT may come from the stream; the writer chose any other label."""
        if (label is not ERROR and label is not INFO and label is not DEFAULT) or source == SERVICE:
            return label
        if payload is not None and not (payload.keys() <= _ENVELOPE and "levelname" in payload):
            return label if "vxtui" in payload else stated_severity(payload) or label
        start = text[:BEGINNING] if "\r" not in text else last_rewrite(text)[:BEGINNING]
        try:
            shape = _shapes[start.encode().translate(_DIGITS_AS_ZERO)]
        except (KeyError, UnicodeEncodeError):
            shape = _learn(start)
        last = self._stderr if label is ERROR else self._stdout
        severity = shape.severity
        if severity is None:
            severity = self._unstated(source, label, shape, last.get(source, label))
        last[source] = severity
        return severity

    def _unstated(self, source: str, label: Severity, shape: _Shape, before: Severity) -> Severity:
        if shape.continues or (shape.ends and before >= ERROR and source in self._within):
            self._within.add(source)
            return before
        self._within.discard(source)
        return INFO if label is ERROR and not shape.fails else label
