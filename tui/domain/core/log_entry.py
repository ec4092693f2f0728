"""A log entry and its severity, in the order of Cloud Logging."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Any

from tui.domain.core.formatting import pieces

SERVICE = "service"
"""The task name of the platform's own messages (docs/facts/vertex.md 5.1)."""


class Severity(IntEnum):
    """LogSeverity of google.logging.type, in its order."""

    DEFAULT = 0
    DEBUG = 100
    INFO = 200
    NOTICE = 300
    WARNING = 400
    ERROR = 500
    CRITICAL = 600
    ALERT = 700
    EMERGENCY = 800

    @classmethod
    def parse(cls, text: str) -> Severity:
        """Parse a severity, ignoring case; `warn` and `err` are accepted. Raises ValueError with the accepted
        words, for any other text."""
        word = text.strip().upper()
        word = {"WARN": "WARNING", "ERR": "ERROR", "FATAL": "CRITICAL", "TRACE": "DEBUG"}.get(word, word)
        try:
            return cls[word]
        except KeyError:
            known = ", ".join(member.name.lower() for member in cls)
            raise ValueError(f"unknown severity {text!r}; use one of {known}") from None


@dataclass(slots=True, unsafe_hash=True)
class LogEntry:
    """One line of one replica, or one message of the service.

    Treat an entry as immutable. The class is not frozen because freezing costs 0.5 µs per entry.

    `message` is the raw text: untrusted, with control sequences. Pass it through `tui.domain.core.text.plain`
    before writing it to a terminal. `json` is the whole jsonPayload if the line was one JSON object, else
    `None`.
    """

    timestamp: datetime
    insert_id: str
    replica: str
    severity: Severity
    message: str
    json: Mapping[str, Any] | None = None
    job_id: str = ""
    nanos: int = 0
    """Nanoseconds below the microsecond of `timestamp`, 0 to 999: the service orders by them."""
    label: Severity | None = None
    """The severity from the service, if it differs from the line's own severity."""

    @property
    def key(self) -> tuple[datetime, int, str, str]:
        """The sort key in a merged log, which is also the identity of an entry."""
        return (self.timestamp, self.nanos, self.insert_id, self.replica)


@dataclass(frozen=True, slots=True)
class LogGap:
    """A gap in the delivered log, to be shown in the log: the number of missing entries and the reason.
    `count` is `None` if unknown."""

    timestamp: datetime
    count: int | None
    reason: str
    until: datetime | None = None
    """Time at which entries arrived again; `None` if unknown."""
    filled: int = 0
    """Number of entries in the gap that were fetched later."""

    @property
    def missing(self) -> str:
        """Number of missing lines, as text."""
        return "lines not delivered" if self.count is None else f"{pieces(self.count, 'line')} not delivered"

    @property
    def words(self) -> str:
        """The gap as a sentence without its times; `reason` may be untrusted."""
        missing = self.missing
        if not self.filled:
            return f"{missing}: {self.reason}"
        late = f"{pieces(self.filled, 'line')} fetched later, at their time"
        return f"{self.reason}: {late}; {'nothing missing' if self.count == 0 else missing}"
