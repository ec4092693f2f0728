"""How far a job's log has been read from its service, by the service's times and not by those of the lines.

A replica's clock may be hours off. The newest and the oldest line that are kept say nothing of what was read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tui.domain.core.log_entry import LogEntry


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """Where the next read begins, newer and older lines."""

    received: datetime | None = None
    """What the service received before was read; `None` before the first read or where it does not say so."""
    oldest: datetime | None = None
    """Lines are read back to this time of their own; `None` where nothing is known to be read."""

    def json(self) -> str:
        """For the next process."""
        times = {"received": self.received, "oldest": self.oldest}
        return json.dumps({name: at.isoformat() if at else None for name, at in times.items()})

    @classmethod
    def of_json(cls, text: str) -> ReadPosition:
        """Raises ValueError, TypeError or KeyError for a text that `json` did not write."""
        said = json.loads(text)
        received, oldest = (
            datetime.fromisoformat(said[name]) if said[name] is not None else None
            for name in ("received", "oldest")
        )
        return cls(received, oldest)


@dataclass(frozen=True, slots=True)
class OlderLines:
    """How many older lines were read, and why there were not more."""

    count: int
    problem: str = ""


def oldest_of(entries: Sequence[LogEntry], known: datetime | None) -> datetime | None:
    """The oldest time of these lines and of those that are known."""
    times = [entry.timestamp for entry in entries]
    return min([*times, known] if known is not None else times, default=None)
