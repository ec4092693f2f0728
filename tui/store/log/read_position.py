"""The read position of a job's log, measured by the service's times instead of the lines' times.

A replica's clock may be hours off, so the newest and the oldest stored lines don't show the extent of the
reads.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tui.domain.core.log_entry import LogEntry


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """The start of the next read of newer lines, and of older lines."""

    received: datetime | None = None
    """Receive time before which all lines were read; `None` before the first read, or if not reported."""
    oldest: datetime | None = None
    """Timestamp down to which lines were read; `None` if unknown."""

    def json(self) -> str:
        """Serialise the position for the next process."""
        times = {"received": self.received, "oldest": self.oldest}
        return json.dumps({name: at.isoformat() if at else None for name, at in times.items()})

    @classmethod
    def of_json(cls, text: str) -> ReadPosition:
        """Parse the text of `json`. Raises ValueError or TypeError or KeyError for other text."""
        fields = json.loads(text)
        received, oldest = (
            datetime.fromisoformat(fields[name]) if fields[name] is not None else None
            for name in ("received", "oldest")
        )
        return cls(received, oldest)


@dataclass(frozen=True, slots=True)
class OlderLines:
    """Number of older lines that were read, and the reason why there were not more."""

    count: int
    problem: str = ""


def oldest_of(entries: Sequence[LogEntry], known: datetime | None) -> datetime | None:
    """Return the oldest time of these lines and the `known` time."""
    times = [entry.timestamp for entry in entries]
    return min([*times, known] if known is not None else times, default=None)
