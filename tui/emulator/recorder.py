"""Keeps the runner's record. A full disk delays it and never costs a process. Standard library only."""

from __future__ import annotations

import logging
import os
import sqlite3
import struct
import time
from collections.abc import Iterable, Sequence
from typing import Protocol

from tui.emulator import process_tree, runner_database
from tui.emulator.paths import AttemptDir

log = logging.getLogger("runner")

RETRY = 1.0
_STAMP = struct.Struct("<qq")


class ReplicaLike(Protocol):
    """What is recorded of a replica."""

    pid: int | None
    start: int
    state: str
    exit_code: int | None
    restarts: int
    oom: bool

    @property
    def plan(self) -> PlanLike: ...


class PlanLike(Protocol):
    @property
    def id(self) -> str: ...


class Recorder:
    """Collects changes in memory and writes them in one transaction when it can."""

    def __init__(self, home: AttemptDir, replicas: Sequence[str]) -> None:
        self._home = home
        self._streams = [(r, s) for r in replicas for s in ("stdout", "stderr")]
        self._sizes = dict.fromkeys(self._streams, 0)
        self._db: sqlite3.Connection | None = None
        self._rows: dict[str, tuple[object, ...]] = {}
        self._events: list[tuple[float, str, str]] = []
        self._samples: list[runner_database.Sample] = []
        self._outcome: tuple[object, ...] | None = None
        self._dirty = True
        self._retry_at = 0.0

    def replicas(self, found: Iterable[ReplicaLike]) -> None:
        for r in found:
            self._rows[r.plan.id] = (r.plan.id, r.pid, r.start, r.state, r.exit_code, r.restarts, int(r.oom))
        self._dirty = True

    def event(self, who: str, text: str) -> None:
        self._events.append((time.time(), who, text))
        self._dirty = True

    def samples(self, found: list[runner_database.Sample]) -> None:
        self._samples += found
        self._dirty = self._dirty or bool(found)

    def outcome(self, outcome: str, failed: str | None, exit_code: int | None, detail: str) -> None:
        self._outcome = (outcome, failed, exit_code, detail)
        self._dirty = True

    def stamp(self) -> None:
        """Note the time at which each output file was seen to have grown (see `paths.AttemptDir`)."""
        for key in self._streams:
            try:
                size = os.stat(self._home.output(*key)).st_size  # noqa: PTH116 - called 20 times a second
            except OSError:
                continue
            if size <= self._sizes[key]:
                continue
            try:
                with self._home.stamps(*key).open("ab") as file:
                    file.write(_STAMP.pack(size, time.time_ns()))
            except OSError as error:
                log.warning("no stamp for %s.%s: %s", *key, error)
                continue
            self._sizes[key] = size

    def flush(self) -> bool:
        """Write what has changed; False when that was not possible and is to be tried again."""
        if not self._dirty:
            return True
        if time.monotonic() < self._retry_at:
            return False
        try:
            self._write()
        except (sqlite3.Error, OSError) as error:
            log.warning("the record can't be written, trying again: %s", error)
            self._retry_at = time.monotonic() + RETRY
            # Processes and exit codes matter; figures of a full disk's time are given up.
            self._samples.clear()
            return False
        return True

    def _write(self) -> None:
        if self._db is None:
            self._db = runner_database.create(self._home.database)
        db = self._db
        me = process_tree.read(os.getpid())
        assert me is not None
        db.execute("BEGIN")
        try:
            db.execute(
                "INSERT INTO runner (one, pid, start, boot) VALUES (1, ?, ?, ?) ON CONFLICT (one) DO NOTHING",
                (me.pid, me.start, process_tree.boot_id()),
            )
            db.executemany(
                "INSERT INTO replicas VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE"
                " SET pid=excluded.pid, start=excluded.start, state=excluded.state,"
                " exit_code=excluded.exit_code, restarts=excluded.restarts, oom=excluded.oom",
                list(self._rows.values()),
            )
            db.executemany("INSERT INTO events VALUES (?, ?, ?)", self._events)
            db.executemany("INSERT INTO samples VALUES (?, ?, ?, ?, ?)", self._samples)
            if self._outcome is not None:
                db.execute(
                    "UPDATE runner SET outcome=?, failed_replica=?, exit_code=?, detail=?", self._outcome
                )
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise
        self._events.clear()
        self._samples.clear()
        self._dirty = False
