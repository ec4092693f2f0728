"""Entries of Cloud Logging with the ids that the same lines have when they are read from their pod.

An entry has the time of the container runtime, and so the same id, unless its line has a timestamp of its
own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from tui.backends.kubernetes.logs.lines.entries import ContainerName, insert_id
from tui.backends.kubernetes.logs.lines.stamped import stamp_at
from tui.domain.core.log_entry import LogEntry


@dataclass(frozen=True, slots=True)
class CloudEntry:
    """An entry with the pod and container that wrote it."""

    pod: str
    container: str
    entry: LogEntry


class CloudNames:
    """Gives entries of Cloud Logging the ids of the lines of their pod."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, int]] = Counter()

    def named(self, name: ContainerName, entry: LogEntry) -> LogEntry:
        """The entry under its replica's name. Call it in the order of the log."""
        at = stamp_at(entry.timestamp) + entry.nanos
        key = f"{name.uid}/{name.pod}/{name.container}", at
        ordinal = self._counts[key]
        self._counts[key] += 1
        text = entry.message if name.main else f"[{name.container}] {entry.message}"
        own = insert_id(name, at, ordinal)
        return replace(entry, insert_id=own, replica=name.replica, message=text, job_id="")
