"""Writes the runner's record. A full disk delays it but never ends a process. The module uses only the
standard library."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import struct
import time
from collections.abc import Sequence

from tui.config.boot import boot_id
from tui.emulator.paths import AttemptDir
from tui.emulator.runner import database, process_tree
from tui.emulator.runner.database import ReplicaRow, Sample

log = logging.getLogger("runner")

RETRY = 1.0
"""Seconds between attempts to write."""
_STAMP = struct.Struct("<qq")


class Recorder:
    """Collects changes in memory and writes them in one transaction."""

    def __init__(self, home: AttemptDir, replicas: Sequence[str]) -> None:
        self._home = home
        self._streams = [
            (str(home.output(replica, stream)), str(home.stamps(replica, stream)))
            for replica in replicas
            for stream in ("stdout", "stderr")
        ]
        self._sizes = {output: _stamped(stamps) for output, stamps in self._streams}
        self._db: sqlite3.Connection | None = None
        self._rows: dict[str, ReplicaRow] = {}
        self._events: list[tuple[float, str, str]] = []
        self._samples: list[Sample] = []
        self._outcome: tuple[str, str | None, int | None, str] | None = None
        self._state = "{}"
        self._dirty = True
        self._retry_at = 0.0
        self._warned: dict[str, float] = {}

    def replica(self, row: ReplicaRow) -> None:
        """Set the state of one replica."""
        self._rows[row[0]] = row
        self._dirty = True

    def state(self, state: str) -> None:
        """Set the state that a replacement runner needs."""
        self._dirty = self._dirty or state != self._state
        self._state = state

    def event(self, source: str, text: str) -> None:
        """Add an event that the platform would log. `source` is a replica or "service"."""
        self._events.append((time.time(), source, text))
        self._dirty = True

    def samples(self, rows: list[Sample]) -> None:
        self._samples += rows
        self._dirty = self._dirty or bool(rows)

    def outcome(self, outcome: str, failed: str | None, exit_code: int | None, detail: str) -> None:
        """Set the outcome, after every process has ended and every stamp is written."""
        self._outcome = (outcome, failed, exit_code, detail)
        self._dirty = True

    def stamp(self) -> bool:
        """Record the time at which each output file has grown (see `paths.AttemptDir`).

        Return False when a stamp could not be written; the next call tries again.
        """
        complete = True
        for output, stamps in self._streams:
            try:
                size = os.stat(output).st_size  # noqa: PTH116 - called 20 times a second
            except OSError:
                continue
            if size <= self._sizes[output]:
                continue
            try:
                _append(stamps, _STAMP.pack(size, time.time_ns()))
            except OSError as error:
                self._warn(stamps, error)
                complete = False
                continue
            self._sizes[output] = size
        return complete

    def flush(self) -> bool:
        """Write the changes. Return False when that fails and the next call has to retry."""
        if not self._dirty:
            return True
        if time.monotonic() < self._retry_at:
            return False
        try:
            self._write()
        except (sqlite3.Error, OSError) as error:
            self._warn("the record", error)
            self._retry_at = time.monotonic() + RETRY
            # Processes, events and exit codes must be preserved. Samples taken while the disk is full are
            # dropped.
            self._samples.clear()
            return False
        return True

    def close(self) -> None:
        """Merge the write-ahead log into the file and close it."""
        if self._db is not None:
            with contextlib.suppress(sqlite3.Error):
                self._db.close()

    def _write(self) -> None:
        if self._db is None:
            self._db = database.create(self._home.database)
        me = process_tree.read(os.getpid())
        assert me is not None
        with database.transaction(self._db) as db:
            database.put_runner(db, database.Identity(me.pid, me.start, boot_id()), self._state)
            database.put_replicas(db, self._rows.values())
            db.executemany("INSERT INTO events VALUES (?, ?, ?)", self._events)
            db.executemany("INSERT INTO samples VALUES (?, ?, ?, ?, ?)", self._samples)
            if self._outcome is not None:
                database.put_outcome(db, self._outcome)
        self._events.clear()
        self._samples.clear()
        self._dirty = False

    def _warn(self, subject: str, error: Exception) -> None:
        """Log at most once a minute: on a full disk, writes fail 20 times a second."""
        now = time.monotonic()
        if now - self._warned.get(subject, -60.0) >= 60.0:
            self._warned[subject] = now
            log.warning("can't write %s, retrying: %s", subject, error)


def _stamped(path: str) -> int:
    """Return the size in the last stamp, or 0 if there is none."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            file.seek(-_STAMP.size, os.SEEK_END)
            return int(_STAMP.unpack(file.read())[0])
    except OSError:
        return 0


def _append(path: str, record: bytes) -> None:
    """Append a complete record or nothing, so that the file stays a sequence of records. Raises OSError."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        written = os.write(file, record)
        if written != len(record):
            os.ftruncate(file, os.fstat(file).st_size - written)
            raise OSError(28, "no space left for a complete record")
    finally:
        os.close(file)
