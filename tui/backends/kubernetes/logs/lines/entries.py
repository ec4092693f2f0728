"""Builds log entries from lines of a container, like the entries of Cloud Logging."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from tui.backends.kubernetes.logs.lines.stamped import SECOND, moment_of, stamp_at
from tui.domain.core.log_entry import LogEntry, Severity
from tui.domain.log.json_line import NotAnObject, parse_json_line, pieces
from tui.domain.log.judge import SeverityJudge

PLAIN = Severity.INFO
"""Severity of a line that states none. The API does not distinguish stdout from stderr."""


@dataclass(frozen=True, slots=True)
class ContainerName:
    """The identity of a container in a pod of a job."""

    namespace: str
    pod: str
    uid: str
    """The pod's uid, because another pod may get the same name."""
    container: str
    replica: str
    main: bool = True
    """Whether this is the main container. Entries of other containers name their container."""

    @property
    def words(self) -> str:
        """The container's description in a message."""
        return f"pod {self.pod}" if self.main else f"container {self.container} of pod {self.pod}"


def entries_of(
    name: ContainerName, stamp: int, ordinal: int, text: bytes, judge: SeverityJudge
) -> list[LogEntry]:
    """Return the entries of one line; several if the line is longer than an entry may be.

    `judge` has judged the container's earlier lines. The ids are the same in a later read: they consist of
    the node's time and the ordinal among lines of that time.
    """
    parts = pieces(text)
    whole = len(parts) == 1
    return [_entry(name, stamp, ordinal, part, at, whole, judge) for at, part in enumerate(parts)]


def _entry(  # noqa: PLR0917 - what a line is, and which part of it
    name: ContainerName, stamp: int, ordinal: int, part: bytes, at: int, whole: bool, judge: SeverityJudge
) -> LogEntry:
    text = part.decode("utf-8", "replace")
    payload: dict[str, Any] | None = None
    label = PLAIN
    own = stamp
    if whole and text.startswith("{"):
        try:
            line = parse_json_line(text)
        except NotAnObject:
            pass
        else:
            payload = line.payload
            label = PLAIN if line.severity is None else Severity(line.severity)
            own = stamp if line.timestamp is None else line.timestamp
            message = payload.get("message")
            text = message if isinstance(message, str) else json.dumps(payload, ensure_ascii=False)
    severity = judge.judge(name.replica, label, text, payload)
    if not name.main:
        text = f"[{name.container}] {text}"
    return LogEntry(
        moment_of(own),
        insert_id(name, stamp, ordinal, at),
        name.replica,
        severity,
        text,
        payload,
        nanos=own % SECOND % 1000,
    )


def insert_id(name: ContainerName, stamp: int, ordinal: int, part: int = 0) -> str:
    """Return an id that sorts lines of one time in file order and is the same in every read."""
    more = f".{part:03x}" if part else ""
    return f"{stamp:016x}-{ordinal:05x}{more}-{name.uid[:8]}-{name.container}"


@dataclass(frozen=True, slots=True)
class CloudEntry:
    """An entry with the pod and container that wrote it."""

    pod: str
    container: str
    entry: LogEntry


class CloudNames:
    """Gives entries of Cloud Logging the ids that the same lines have when they are read from their pod.

    An entry has the container runtime's timestamp, and so the same id, unless its line carries a timestamp.
    """

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, int]] = Counter()

    def named(self, name: ContainerName, entry: LogEntry) -> LogEntry:
        """Return the entry under its replica's name. Call `named` in log order."""
        at = stamp_at(entry.timestamp) + entry.nanos
        key = f"{name.uid}/{name.pod}/{name.container}", at
        ordinal = self._counts[key]
        self._counts[key] += 1
        text = entry.message if name.main else f"[{name.container}] {entry.message}"
        own = insert_id(name, at, ordinal)
        return replace(entry, insert_id=own, replica=name.replica, message=text, job_id="")
