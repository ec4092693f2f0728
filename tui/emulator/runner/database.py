"""The runner's record of one attempt: processes, outcome, events and samples. The module uses only the
standard library.

Only the runner writes; the server and the tests read. Readers open the file read-only, and it may not exist
yet.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from tui.emulator.paths import AttemptDir
from tui.emulator.runner.plan import AttemptStatus, ReplicaStatus

_SCHEMA = """
CREATE TABLE IF NOT EXISTS runner (one INTEGER PRIMARY KEY CHECK (one = 1), pid INTEGER, start INTEGER,
  boot TEXT, outcome TEXT, failed_replica TEXT, exit_code INTEGER, detail TEXT NOT NULL DEFAULT '',
  state TEXT NOT NULL DEFAULT '{}');
CREATE TABLE IF NOT EXISTS replicas (id TEXT PRIMARY KEY, pid INTEGER, start INTEGER, state TEXT NOT NULL,
  exit_code INTEGER, restarts INTEGER NOT NULL DEFAULT 0, oom INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS events (at REAL NOT NULL, who TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS samples (time_ns INTEGER NOT NULL, replica TEXT NOT NULL, metric TEXT NOT NULL,
  accelerator TEXT NOT NULL, value REAL NOT NULL);
CREATE INDEX IF NOT EXISTS samples_by_time ON samples (time_ns);
"""

Sample = tuple[int, str, str, str, float]
"""Time in ns since the epoch, replica, metric as in `tui.domain.core.metric`, accelerator or "", and value.
The name of a simulated accelerator begins with `tui.emulator.runner.simulated_gpus.MARK`."""
ReplicaRow = tuple[str, int | None, int, str, int | None, int, int]
"""Columns of table `replicas`: id, pid, start in ticks, state, exit code, restarts, out of memory."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of a process: pid, start in ticks since boot, and the boot id."""

    pid: int
    start: int
    boot: str


def create(path: Path) -> sqlite3.Connection:
    """Open the record for writing, and create a missing schema. Raises sqlite3.Error."""
    db = sqlite3.connect(path, isolation_level=None, timeout=10)
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
        db.executescript(_SCHEMA)
    except sqlite3.Error:
        db.close()
        raise
    return db


@contextlib.contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Commit everything or nothing."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield db
        db.execute("COMMIT")
    except BaseException:
        # After some errors, e.g. a full disk, SQLite has already rolled back.
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def put_runner(db: sqlite3.Connection, process: Identity, state: str) -> None:
    """Store the process that writes this record, and its state as JSON for the next runner."""
    db.execute(
        "INSERT INTO runner (one, pid, start, boot, state) VALUES (1, ?, ?, ?, ?) ON CONFLICT (one)"
        " DO UPDATE SET pid=excluded.pid, start=excluded.start, state=excluded.state",
        (process.pid, process.start, process.boot, state),
    )


def put_replicas(db: sqlite3.Connection, rows: Iterable[ReplicaRow]) -> None:
    db.executemany(
        "INSERT INTO replicas VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE"
        " SET pid=excluded.pid, start=excluded.start, state=excluded.state,"
        " exit_code=excluded.exit_code, restarts=excluded.restarts, oom=excluded.oom",
        list(rows),
    )


def put_outcome(db: sqlite3.Connection, outcome: tuple[str, str | None, int | None, str]) -> None:
    """Store outcome, failed replica, exit code and detail of `AttemptStatus`."""
    db.execute("UPDATE runner SET outcome=?, failed_replica=?, exit_code=?, detail=?", outcome)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection | None]:
    """Open a read-only connection, `None` while there is no record.

    A record whose schema is incomplete counts as absent.
    """
    if not path.exists():
        yield None
        return
    db = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=10)
    try:
        complete = db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'samples_by_time'").fetchone()[
            0
        ]
        yield db if complete else None
    finally:
        db.close()


def read_identity(path: Path) -> Identity | None:
    """Return the runner that wrote this record."""
    with reading(path) as db:
        row = db.execute("SELECT pid, start, boot FROM runner").fetchone() if db else None
    return Identity(*row) if row else None


def read_runner(path: Path) -> tuple[str | None, str, list[ReplicaRow]]:
    """Return the outcome, the state of the last runner, and the rows of the replicas."""
    with reading(path) as db:
        row = db.execute("SELECT outcome, state FROM runner").fetchone() if db else None
        if db is None or row is None:
            return None, "{}", []
        columns = "id, pid, start, state, exit_code, restarts, oom"
        return *row, db.execute(f"SELECT {columns} FROM replicas").fetchall()


def read_processes(path: Path) -> list[tuple[int, int]]:
    """Return the pid and start ticks of the replicas' first processes."""
    with reading(path) as db:
        if db is None:
            return []
        return list(db.execute("SELECT pid, start FROM replicas WHERE pid IS NOT NULL"))


def read_status(path: Path) -> AttemptStatus | None:
    """Return the recorded status, or None if there is no record. Raises sqlite3.Error when it can't be
    read."""
    with reading(path) as db:
        if db is None:
            return None
        # One transaction, so that the outcome and the replicas are of the same moment.
        db.execute("BEGIN")
        row = db.execute("SELECT outcome, failed_replica, exit_code, detail FROM runner").fetchone()
        if row is None:
            return None
        replicas = tuple(
            ReplicaStatus(i, pid, state, code, restarts, bool(oom))
            for i, pid, state, code, restarts, oom in db.execute(
                "SELECT id, pid, state, exit_code, restarts, oom FROM replicas ORDER BY rowid"
            )
        )
        events = tuple(db.execute("SELECT at, who, text FROM events ORDER BY rowid"))
    return AttemptStatus(row[0], replicas, row[1], row[2], row[3], events)


def read_samples(attempt: AttemptDir, since_ns: int = 0) -> list[Sample]:
    """Return the samples of one attempt newer than `since_ns`, oldest first; the result is empty while there
    are none."""
    with reading(attempt.database) as db:
        if db is None:
            return []
        return list(
            db.execute(
                "SELECT time_ns, replica, metric, accelerator, value FROM samples"
                " WHERE time_ns > ? ORDER BY time_ns, rowid",
                (since_ns,),
            )
        )
