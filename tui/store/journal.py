"""Events of this console, shown on its screen, and the audit file of what changed something."""

from __future__ import annotations

import json
import os
import pwd
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Literal

KEPT = 1_000
TAIL = 100_000
"""Bytes of the audit file that are read for what happened earlier."""
Surface = Literal["console", "verb"]


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the journal. `kind` is "state", "action", "error" or "console"."""

    at: datetime
    kind: str
    text: str
    job: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One operation: through which surface, where, and what it changes."""

    surface: Surface
    context: str
    project: str
    region: str
    """Empty for what has none, e.g. a profile's file."""
    action: str
    """Id of the operation, e.g. `job.cancel`."""
    target: str


class Journal:
    """Events of this run, newest last, and the audit file of every operation that changed something.

    The audit file holds one JSON object a line: time, user (`name@host`), surface ("console" or "verb"),
    context, project, region, action, target, result ("asked", "done" or "failed") and, for a failure, the
    error's code and message. It is appended to, never rewritten.
    """

    def __init__(self, path: Path, clock: Callable[[], datetime]) -> None:
        self.path = path
        self.events: deque[Event] = deque(maxlen=KEPT)
        self._clock = clock
        self._began = clock()
        self._number = 0

    def add(self, kind: str, text: str, job: str = "") -> Event:
        """Record an event in memory."""
        self._number += 1
        event = Event(self._clock(), kind, text, job, self._number)
        self.events.append(event)
        return event

    def earlier(self) -> list[Event]:
        """Operations before this run, newest last, from the end of the audit file; blocking.

        A line that can't be read is left out: the file may be cut, or of another version.
        """
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - TAIL))
                lines = file.read().decode("utf-8", "replace").splitlines()[1 if size > TAIL else 0 :]
        except OSError:
            return []
        found = [event for line in lines if (event := _event(line)) and event.at < self._began]
        return [replace(event, number=at - len(found)) for at, event in enumerate(found)]

    def audit(self, entry: AuditEntry, result: str, code: str = "", message: str = "") -> None:
        """Append one line to the audit file, for this user alone; blocking.

        Raises:
            OSError: when it can't be written.
        """
        line = {"time": self._clock().isoformat(), "user": user(), **asdict(entry), "result": result}
        line |= {"code": code, "message": message} if code else {}
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(handle, "a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _event(line: str) -> Event | None:
    """An action that was done or failed; None for one that was merely asked for, and for no such line."""
    try:
        said = json.loads(line)
        at, result = datetime.fromisoformat(said["time"]), said["result"]
        words = f"{said['action']} {said['target']} {result}, in {said['context']}"
    except (ValueError, KeyError, TypeError):
        return None
    if result == "asked" or at.tzinfo is None:
        return None
    error = f": {said['code']}: {said['message']}" if said.get("code") else ""
    return Event(at, "error" if error else "action", words + error, str(said["target"]))


def user() -> str:
    """Who works here: `name@host`."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        # A container's user id may have no entry.
        name = str(os.getuid())
    return f"{name}@{socket.gethostname()}"
