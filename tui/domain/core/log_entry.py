"""A log entry and its severity, as Cloud Logging orders them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Any

from tui.domain.core.formatting import pieces

SERVICE = "service"
"""The task name under which the platform itself writes (docs/facts/vertex.md 5.1)."""


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
        """The severity a person or a program wrote, case ignored; `warn` and `err` are understood.

        Raises:
            ValueError: with the accepted words, for anything else.
        """
        word = text.strip().upper()
        word = {"WARN": "WARNING", "ERR": "ERROR", "FATAL": "CRITICAL", "TRACE": "DEBUG"}.get(word, word)
        try:
            return cls[word]
        except KeyError:
            known = ", ".join(member.name.lower() for member in cls)
            raise ValueError(f"no severity is called {text!r}; use one of {known}") from None


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One line of one replica, or one message of the service.

    `message` is the text as it was written: untrusted, control sequences and all. Pass it through
    `tui.domain.core.text.plain` before it nears a terminal. `json` is the whole jsonPayload where the line
    was one JSON object, else `None`.
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

    @property
    def key(self) -> tuple[datetime, int, str, str]:
        """The order of a merged log, and what makes an entry the same entry."""
        return (self.timestamp, self.nanos, self.insert_id, self.replica)


@dataclass(frozen=True, slots=True)
class LogGap:
    """A hole in what the service delivered: how many entries are missing and why, for the log to say so.

    `count` is `None` where nobody knows how many there were.
    """

    timestamp: datetime
    count: int | None
    reason: str
    until: datetime | None = None
    """When the entries came again; `None` where that is not known."""
    filled: int = 0
    """Entries of the gap that were fetched later."""

    @property
    def missing(self) -> str:
        """How many lines were not delivered, in words."""
        return "lines not delivered" if self.count is None else f"{pieces(self.count, 'line')} not delivered"

    @property
    def words(self) -> str:
        """The gap as a sentence without its times; `reason` may come from outside."""
        missing = self.missing
        if not self.filled:
            return f"{missing}: {self.reason}"
        late = f"{pieces(self.filled, 'line')} fetched late, in place"
        return f"{self.reason}: {late}; {'nothing missing' if self.count == 0 else missing}"
