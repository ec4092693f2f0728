"""What happened in this console: shown on the events screen, and what changed something kept on disk."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

KEPT = 1_000


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the journal. `kind` is "state", "action", "error" or "console"."""

    at: datetime
    kind: str
    text: str
    job: str = ""
    number: int = 0


class Journal:
    """Events of this run, newest last, and the audit file of every action that changed something.

    The audit file holds one JSON object a line: time, context, action, target, result ("asked", "done" or
    "failed") and, for a failure, the error's code and message. It is appended to, never rewritten.
    """

    def __init__(self, path: Path, clock: Callable[[], datetime]) -> None:
        self.path = path
        self.events: deque[Event] = deque(maxlen=KEPT)
        self._clock = clock
        self._number = 0

    def add(self, kind: str, text: str, job: str = "") -> Event:
        """Record an event in memory."""
        self._number += 1
        event = Event(self._clock(), kind, text, job, self._number)
        self.events.append(event)
        return event

    def audit(self, context: str, action: str, target: str, result: str, error: str = "") -> None:
        """Append one line to the audit file, for this user alone.

        Raises:
            OSError: when it can't be written.
        """
        line = {"time": self._clock().isoformat(), "context": context, "action": action, "target": target}
        line |= {"result": result} | ({"error": error} if error else {})
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(handle, "a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
