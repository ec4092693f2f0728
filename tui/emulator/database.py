"""The control plane's records on disk: jobs, resources and operations in one SQLite file.

This module has the layout and the writer; the module that owns a table's rows reads and writes the table.

Only the server opens the file. Every write is one short transaction in a separate thread, committed with a
full sync before the caller continues, so a crash loses no acknowledged change.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sqlite3
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from google.protobuf.message import DecodeError
from google.rpc import code_pb2

from tui.emulator.messages import Pb
from tui.emulator.rpc.methods import WireError

T = TypeVar("T")
FULL_BYTES = 256 * 1024
"""Free space below which a failed write counts as a full disk."""
_SCHEMA_1 = """
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY, project TEXT NOT NULL, location TEXT NOT NULL,
    created INTEGER NOT NULL, state INTEGER NOT NULL, job BLOB NOT NULL,
    attempt INTEGER NOT NULL, preemptions INTEGER NOT NULL, crashes INTEGER NOT NULL,
    port INTEGER NOT NULL, ports INTEGER NOT NULL, events INTEGER NOT NULL
);
CREATE INDEX jobs_by_place ON jobs (project, location, created DESC, id DESC);
CREATE INDEX jobs_by_state ON jobs (state);
CREATE TABLE operations (
    id INTEGER PRIMARY KEY, project TEXT NOT NULL, location TEXT NOT NULL,
    job INTEGER NOT NULL, operation BLOB NOT NULL
);
CREATE TABLE ids (last INTEGER NOT NULL);
INSERT INTO ids VALUES (0);
"""
_SCHEMA_2 = """
CREATE TABLE training_pipelines (
    id INTEGER PRIMARY KEY, project TEXT NOT NULL, location TEXT NOT NULL,
    job INTEGER NOT NULL, pipeline BLOB NOT NULL
);
"""
_SCHEMA_3 = """
CREATE TABLE tuning_jobs (
    id INTEGER PRIMARY KEY, project TEXT NOT NULL, location TEXT NOT NULL, job BLOB NOT NULL
);
"""
_SCHEMA_4 = """
CREATE TABLE resources (name TEXT PRIMARY KEY, created INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE links (
    kind INTEGER NOT NULL, source TEXT NOT NULL, target TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (kind, source, target)
);
CREATE TABLE points (
    series TEXT NOT NULL, step INTEGER NOT NULL, wall_time INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (series, step)
);
"""
_SCHEMA_5 = """
CREATE TABLE pipeline_jobs (
    project TEXT NOT NULL, location TEXT NOT NULL, id TEXT NOT NULL, number INTEGER NOT NULL,
    job BLOB NOT NULL, tasks TEXT NOT NULL, PRIMARY KEY (project, location, id)
);
CREATE TABLE pipeline_cache (key TEXT PRIMARY KEY, outputs TEXT NOT NULL);
"""
_SCHEMAS = (_SCHEMA_1, _SCHEMA_2, _SCHEMA_3, _SCHEMA_4, _SCHEMA_5)
VERSION = len(_SCHEMAS)
_UPGRADES = {version: "".join(_SCHEMAS[version:]) for version in range(VERSION)}
"""SQL that upgrades a file of an older layout; 0 is a new file."""


class DatabaseError(Exception):
    """The file can't be opened or has another layout; the message names the file and the remedy."""


REPAIR = "`vxtui emulator repair` saves its readable rows and moves the damaged file aside"
"""Remedy in the message about a damaged file."""
_DAMAGED = ("malformed", "not a database", "decode")
_UNREAD = ("unable to open", "locked", "I/O error", "readonly")
"""Parts of SQLite's messages about a file that may be valid but can't be read or written."""


def unusable(path: Path, error: Exception) -> DatabaseError:
    """Return the error for a file that can't be opened, with the remedy."""
    unread = isinstance(error, sqlite3.OperationalError) and any(word in str(error) for word in _UNREAD)
    if isinstance(error, sqlite3.Error) and _disk_full(path, error):
        helps = "the disk is full: free some space"
    else:
        helps = "check the file and its disk" if unread else REPAIR
    return DatabaseError(f"can't use {path}: {error}; {helps}")


def check_file(path: Path) -> None:
    """Raise DatabaseError if the file exists and is not a database."""
    if path.exists():
        try:
            with contextlib.closing(sqlite3.connect(path)) as db:
                db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.Error as error:
            raise unusable(path, error) from error


class StorageFull(WireError):
    """The write failed and changed nothing. The code is RESOURCE_EXHAUSTED if the disk is full, otherwise
    UNAVAILABLE."""

    def __init__(self, path: Path, error: sqlite3.Error) -> None:
        super().__init__(
            code_pb2.RESOURCE_EXHAUSTED if _disk_full(path, error) else code_pb2.UNAVAILABLE,
            f"The emulator can't write {path}: {error}. Nothing was changed. {remedy(path, error)}",
        )


def remedy(path: Path, error: sqlite3.Error) -> str:
    """Return the remedy for an error of a database in use."""
    if _disk_full(path, error):
        return "Free some space on the disk and try again."
    if any(word in str(error) for word in _DAMAGED):
        return f"Stop the emulator; then {REPAIR}."
    return "Check the disk and try again."


def _disk_full(path: Path, error: sqlite3.Error) -> bool:
    # SQLite reports a full disk as an I/O error when it maps its shared memory.
    try:
        return "full" in str(error) or shutil.disk_usage(path.parent).free < FULL_BYTES
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class Change:
    """A pending change: `write` it in a transaction of the database, then `show` it in memory."""

    write: Callable[[sqlite3.Connection], None]
    show: Callable[[], None]


def together(*changes: Change) -> Change:
    """Combine changes into a single change, which is written in one transaction."""

    def write(db: sqlite3.Connection) -> None:
        for change in changes:
            change.write(db)

    def show() -> None:
        for change in changes:
            change.show()

    return Change(write, show)


NOTHING = together()
"""The empty change."""


def created_us(pb: Pb) -> int:
    """Return a resource's create_time in microseconds since the epoch: the first half of its sort key."""
    return int(pb.create_time.seconds) * 1_000_000 + int(pb.create_time.nanos) // 1000


class Database:
    """SQLite in WAL mode behind one writer thread. `before_write` may refuse a write with sqlite3.Error."""

    def __init__(self, path: Path, before_write: Callable[[], None] = lambda: None) -> None:
        self.path = path
        self.before_write = before_write
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="state-db")
        self._db: sqlite3.Connection | None = None
        self._changes: set[asyncio.Task[Any]] = set()

    async def open(self) -> None:
        """Open the file, or create it. Raises DatabaseError when it can't be used."""
        try:
            await self._in_thread(self._open)
        except sqlite3.Error as error:
            raise unusable(self.path, error) from error

    async def load(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work`, which reads and decodes rows at the start.

        Raises DatabaseError when the file can't be read or a row can't be decoded.
        """
        try:
            return await self._in_thread(lambda: work(self._connection))
        except (sqlite3.Error, DecodeError) as error:
            raise unusable(self.path, error) from error

    async def close(self) -> None:
        """Finish the writes in progress and close the file."""
        await self.settle()
        await self._in_thread(self._close)
        self._thread.shutdown()

    async def settle(self) -> None:
        """Wait for pending changes."""
        await asyncio.gather(*self._changes, return_exceptions=True)

    async def finish(self, change: Coroutine[Any, Any, T]) -> T:
        """Complete `change` even if the caller is cancelled, because disk and memory must agree."""
        task = asyncio.ensure_future(change)
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        return await asyncio.shield(task)

    async def make(self, change: Change) -> None:
        """Write a change, then show it. Raises StorageFull; then nothing has changed."""
        await self.write(change.write)
        change.show()

    async def next_id(self) -> int:
        """Return a new 19-digit number, larger than all before; ids are never reused."""
        return await self.write(_next_id)

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in one transaction, in the order of the calls.

        Raises StorageFull when it could not be committed; nothing was written.
        """
        try:
            return await self._in_thread(lambda: self._transact(work))
        except sqlite3.Error as error:
            raise StorageFull(self.path, error) from error

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work`, which changes nothing, after the writes queued before it.

        Raises StorageFull when the file can't be read.
        """
        try:
            return await self._in_thread(lambda: work(self._connection))
        except sqlite3.Error as error:
            raise StorageFull(self.path, error) from error

    @property
    def _connection(self) -> sqlite3.Connection:
        assert self._db is not None
        return self._db

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _transact(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._connection as db:
            db.execute("BEGIN IMMEDIATE")
            self.before_write()
            return work(db)

    def _open(self) -> None:
        new = not self.path.exists()
        try:
            self._connect()
        except sqlite3.Error:
            self._close()
            if new:
                # Otherwise the next start would report an incomplete file as damaged.
                for suffix in ("", "-wal", "-shm"):
                    self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
            raise

    def _connect(self) -> None:
        db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=10)
        self._db = db
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version in _UPGRADES:
            db.executescript(f"BEGIN; {_UPGRADES[version]} PRAGMA user_version = {VERSION}; COMMIT;")
        elif version != VERSION:
            raise DatabaseError(
                f"{self.path} was written by another version of vxtui (layout {version}, but this "
                f"version reads {VERSION}); use that version, or choose another state directory"
            )

    def _close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None


def _next_id(db: sqlite3.Connection) -> int:
    last: int = db.execute("SELECT last FROM ids").fetchone()[0]
    new = max(last + 1, time.time_ns())
    db.execute("UPDATE ids SET last = ?", (new,))
    return new
