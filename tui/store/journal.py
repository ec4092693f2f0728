"""Events of this console, shown on its screen, and the audit file of operations that changed something."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import socket
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Literal

from tui.domain.masking import mask_text

KEPT = 1_000
TAIL = 100_000
"""Number of bytes read from the end of the audit file for earlier operations."""
Surface = Literal["console", "verb", "guard"]
_LAUNCH = "job.launch"
_UNSURE = {"UNAVAILABLE", "INTERRUPTED", "INTERNAL"}
"""Error codes of launches that failed but may have created the job."""


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
    """One operation: its surface, location and target."""

    surface: Surface
    context: str
    project: str
    region: str
    """Region, or "" if the target has none, e.g. a profile's file."""
    action: str
    """Id of the operation, e.g. `job.cancel`."""
    target: str
    mark: str = ""
    """Value of the label by which the job of a launch is found; "" for other operations."""
    kind: str = ""
    """Kind of the job that a launch creates, e.g. `custom_job`; "" for other operations."""


class Journal:
    """Events of this run, newest last, and the audit file of every operation that changed something.

    The audit file holds one JSON object per line: time, user (`name@host`), surface ("console", "verb" or
    "guard"), context, project, region, action, target, result ("asked", "done" or "failed") and, for a
    failure, the error's code and message; also the process, and of a launch the value of its job's label.
    Lines are appended, never rewritten.
    """

    def __init__(self, path: Path, clock: Callable[[], datetime]) -> None:
        self.path = path
        self.events: deque[Event] = deque(maxlen=KEPT)
        self._clock = clock
        self._number = 0
        self._audit_number = 0
        """Number of the last audit event; negative, to differ from the numbers of this run's events."""
        self._read_to: int | None = None
        self._own: set[str] = set()
        """Lines written by this run, which are already events."""
        self._launched: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """Number of launches of each job name, by context."""
        self._marks: set[str] = set()
        """Values of the label by which the jobs of the launches are found."""
        self._launches_read_to = 0
        self._reading = threading.Lock()
        self._looked_back: set[str] = set()

    def now(self) -> datetime:
        """Return the journal's time."""
        return self._clock()

    def add(self, kind: str, text: str, job: str = "") -> Event:
        """Record an event in memory."""
        self._number += 1
        event = Event(self._clock(), kind, mask_text(text), job, self._number)
        self.events.append(event)
        return event

    def read_audit(self) -> list[Event]:
        """Return operations that other processes added since the last call, oldest first (blocking).

        The first call reads only the end of the file. Unreadable lines are skipped, because the file may be
        truncated, or written by another version.
        """
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                if self._read_to is None or size < self._read_to:
                    self._read_to = self._first_line(file, size)
                file.seek(self._read_to)
                # A line without a line end is still being written.
                whole = file.read(size - self._read_to).rpartition(b"\n")[0]
        except OSError:
            return []
        self._read_to += len(whole) + 1 if whole else 0
        events = []
        for line in whole.decode("utf-8", "replace").split("\n"):
            if line in self._own:
                self._own.discard(line)
            elif (event := _event(line)) is not None:
                self._audit_number -= 1
                events.append(replace(event, number=self._audit_number))
        return events

    def read_launches(self) -> bool:
        """Read the launches of the audit file since the last call. Return whether there are any (blocking).
        The first call reads all of them, including this journal's own."""
        with self._reading:
            return self._read_launches()

    def _read_launches(self) -> bool:
        try:
            with self.path.open("rb") as file:
                if file.seek(0, os.SEEK_END) < self._launches_read_to:
                    self._launched.clear()
                    self._marks.clear()
                    self._launches_read_to = 0
                file.seek(self._launches_read_to)
                return self._count_launches(file)
        except OSError:
            return False

    def _count_launches(self, file: BinaryIO) -> bool:
        launch_read = False
        for line in file:
            if not line.endswith(b"\n"):
                # The line is still being written.
                break
            self._launches_read_to += len(line)
            if _LAUNCH.encode() in line:
                launch_read = True
                self._count_launch(line.decode("utf-8", "replace"))
        return launch_read

    def _count_launch(self, line: str) -> None:
        try:
            record = json.loads(line)
            context, name, result = str(record["context"]), str(record["target"]), record["result"]
            is_launch = record["action"] == _LAUNCH
        except (ValueError, KeyError, TypeError):
            return
        if is_launch and result == "asked":
            self._launched[context][name] += 1
            self._marks.add(str(record.get("mark")))
        elif is_launch and result == "failed" and record.get("code") not in _UNSURE:
            self._launched[context][name] -= 1

    def launched(self, contexts: Collection[str]) -> set[str]:
        """Return the names of the jobs launched in these contexts that `read_launches` has read so far.
        Deleted jobs are included, because their outputs may still exist."""
        # Copy at once, because another thread may be reading.
        counts = [list(self._launched.get(context, Counter[str]()).items()) for context in contexts]
        return {name for context_counts in counts for name, times in context_counts if times > 0}

    def launched_here(self, mark: str) -> bool:
        """Return whether a launch on this machine, of those that `read_launches` has read so far, labelled
        its job with this value."""
        return bool(mark) and mark in self._marks

    def looks_back(self, context: str) -> bool:
        """Return whether this run has not yet reported the context's unfinished launches; true only once."""
        first = context not in self._looked_back
        self._looked_back.add(context)
        return first

    def unfinished(self, context: str) -> list[tuple[datetime, AuditEntry]]:
        """Return the launches of this context, with their times, whose process ended before the result
        arrived (blocking). Only the end of the file is read."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._first_line(file, file.seek(0, os.SEEK_END)))
                lines = file.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return []
        waiting: dict[str, tuple[datetime, AuditEntry]] = {}
        for line in lines:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                record = json.loads(line)
                mark = record.get("mark")
                if not mark or record["context"] != context or record["user"] != user():
                    continue
                entry = AuditEntry(**{field: record[field] for field in AuditEntry.__slots__})
                if record["result"] != "asked":
                    waiting.pop(mark, None)
                elif not Path(f"/proc/{int(record['process'])}").exists():
                    waiting[mark] = (datetime.fromisoformat(record["time"]), entry)
        return list(waiting.values())

    @staticmethod
    def _first_line(file: BinaryIO, size: int) -> int:
        """Return the offset of the first complete line in the end of the file."""
        if size <= TAIL:
            return 0
        file.seek(size - TAIL)
        return size - TAIL + len(file.readline())

    def audit(self, entry: AuditEntry, result: str, code: str = "", message: str = "") -> None:
        """Append one line to the audit file, mode 0600 (blocking). Raises OSError if it can't be written."""
        target = mask_text(entry.target)
        line = {"time": self._clock().isoformat(), "user": user(), **asdict(entry), "target": target}
        line |= {
            "result": result,
            "process": os.getpid(),
            **({"code": code, "message": mask_text(message)} if code else {}),
        }
        text = json.dumps(line, ensure_ascii=False)
        self._own.add(text)
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(handle, "a", encoding="utf-8") as file:
            file.write(text + "\n")


def _event(line: str) -> Event | None:
    """Return the event of an operation that ended; `None` for a request or an unreadable line."""
    try:
        record = json.loads(line)
        at, result = datetime.fromisoformat(record["time"]), record["result"]
        words = f"{record['action']} {record['target']} {result}, in {record['context']}"
    except (ValueError, KeyError, TypeError):
        return None
    if result == "asked" or at.tzinfo is None:
        return None
    error = f": {record['code']}: {record['message']}" if record.get("code") else ""
    return Event(at, "error" if error else "action", words + error, str(record["target"]))


def user() -> str:
    """Return the current user as `name@host`."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        # A container's user id may have no entry.
        name = str(os.getuid())
    return f"{name}@{socket.gethostname()}"
