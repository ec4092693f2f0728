"""Repair of the emulator's databases: readable rows are preserved, the damaged file is moved aside.

A damaged file is read table by table, from both ends of each, so that a damaged page costs only the rows on
it or behind its links. The rows are written to a new file of the same layout.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from google.longrunning import operations_pb2
from google.protobuf.message import DecodeError

from tui.emulator.database import Database, DatabaseError
from tui.emulator.experiments.kinds import kind_of
from tui.emulator.kinds.table import JOB_KINDS, open_tables
from tui.emulator.kubernetes.database import ObjectDatabase, ObjectDatabaseError
from tui.emulator.kubernetes.paths import KubernetesState
from tui.emulator.lock import EmulatorBusy, Lock
from tui.emulator.logging.entry_blocks import damaged_blocks
from tui.emulator.logging.store import EntryStore
from tui.emulator.paths import StateDir
from tui.emulator.storage.store import BucketStore, bucket_of, object_of
from tui.emulator.vertex.operations import read_operations

_FILES = ("", "-wal", "-shm")
_BATCH = 1000
_BUCKET_ROWS: dict[str, Callable[[Sequence[Any]], object]] = {"buckets": bucket_of, "objects": object_of}


@dataclass(frozen=True, slots=True)
class Repaired:
    """Result of the repair of one database."""

    name: str
    aside: str
    """Path of the damaged file now, "" for an intact file, which is unchanged."""
    rows: int
    """Number of preserved rows."""


def repair(state: StateDir) -> list[Repaired]:
    """Check the databases of a stopped emulator, and repair damaged databases (blocking).

    The objects of the emulated cluster are among them, unless it runs.

    Raises:
        EmulatorBusy: a server runs.
        StateDirError: the state directory can't be used.
        OSError: a file can't be moved or written.
    """
    state.prepare()
    with _locked(state):
        repaired = [
            _repair(state.database, _check_state, _drop_unreadable),
            _repair(state.log_database, _check_logs, _drop_damaged_blocks),
            _repair(state.bucket_database, partial(_check_buckets, state.buckets), _drop_damaged_objects),
        ]
    cluster = KubernetesState(state.root / "kubernetes")
    # The objects of a cluster that runs are in use, and sound.
    with suppress(EmulatorBusy):
        if cluster.database.exists():
            with _locked(cluster):
                objects = _repair(cluster.database, _check_objects, _drop_unreadable_objects)
                repaired.append(replace(objects, name=f"kubernetes/{objects.name}"))
    return repaired


@contextmanager
def _locked(state: StateDir) -> Iterator[None]:
    lock = Lock(state)
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _repair(path: Path, check: Callable[[Path], None], tidy: Callable[[Path], None]) -> Repaired:
    if not path.exists() or _sound(path, check):
        return Repaired(path.name, "", 0)
    moment = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    aside = path.with_name(f"{path.name}.damaged-{moment}")
    for suffix in _FILES:
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.replace(aside.with_name(aside.name + suffix))
    check(path)
    rows = _copy(aside, path)
    tidy(path)
    return Repaired(path.name, str(aside), rows)


def _sound(path: Path, check: Callable[[Path], None]) -> bool:
    try:
        with _opened(path) as db:
            verdict = db.execute("PRAGMA quick_check(1)").fetchone()
            if verdict is None or verdict[0] != "ok":
                return False
        check(path)
    except (sqlite3.Error, DatabaseError):
        return False
    return True


def _check_state(path: Path) -> None:
    """Open and read the entire file as the server does; create a missing file. Raises DatabaseError."""

    async def load() -> None:
        database = Database(path)
        try:
            await database.open()
            await database.load(read_operations)
            await open_tables(database)
        finally:
            await database.close()

    asyncio.run(load())


def _check_logs(path: Path) -> None:
    """Check the log. Raises DatabaseError."""
    try:
        EntryStore(path).close()
        with _opened(path) as db:
            damaged = damaged_blocks(db)
    except sqlite3.Error as error:
        raise DatabaseError(str(error)) from error
    if damaged:
        raise DatabaseError(f"{len(damaged)} blocks can't be decoded")


def _check_buckets(root: Path, path: Path) -> None:
    """Check the buckets, whose objects are files below `root`. Raises DatabaseError."""
    try:
        BucketStore(root, path).close()
        with _opened(path) as db:
            for table, decode in _BUCKET_ROWS.items():
                for row in db.execute(f"SELECT * FROM {table}"):
                    decode(row)
    except sqlite3.Error as error:
        raise DatabaseError(str(error)) from error


def _check_objects(path: Path) -> None:
    """Check the objects of the cluster. Raises DatabaseError."""
    database = ObjectDatabase(path)
    try:
        database.open()
        for row in database.rows():
            database.read(row)
    except ObjectDatabaseError as error:
        raise DatabaseError(str(error)) from error
    finally:
        database.close()


def _drop_unreadable_objects(path: Path) -> None:
    """Delete the cluster's objects that do not decode; versions continue beyond those in use."""
    with _opened(path) as db:
        newest = 0
        for *key, data in db.execute("SELECT * FROM objects").fetchall():
            try:
                newest = max(newest, int(json.loads(data)["metadata"]["resourceVersion"]))
            except (ValueError, LookupError, TypeError):
                db.execute(
                    "DELETE FROM objects WHERE (grp, version, plural, namespace, name) = (?,?,?,?,?)", key
                )
        db.execute("UPDATE counter SET last = max(last, ?)", (newest,))


def _drop_damaged_objects(path: Path) -> None:
    """Delete rows that can't be decoded. A file without a row is still an object."""
    with _opened(path) as db:
        for table, decode in _BUCKET_ROWS.items():
            keys = [row[1] for row in db.execute(f"PRAGMA table_info({table})") if row[5]]
            which = " AND ".join(f"{key} IS ?" for key in keys)
            for row in db.execute(f"SELECT * FROM {table}").fetchall():
                try:
                    decode(row)
                except sqlite3.DatabaseError:
                    db.execute(f"DELETE FROM {table} WHERE {which}", row[: len(keys)])


def _drop_damaged_blocks(path: Path) -> None:
    with _opened(path) as db:
        db.executemany("DELETE FROM blocks WHERE id=?", [(number,) for number in damaged_blocks(db)])


class _opened:
    """A connection that is closed at the end of the block, unlike sqlite3's own."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)

    def __enter__(self) -> sqlite3.Connection:
        return self._db

    def __exit__(self, *_: object) -> None:
        self._db.close()


def _copy(damaged: Path, path: Path) -> int:
    """Copy every readable row to the tables and columns of the new file. Return the number of rows."""
    count = 0
    with _opened(damaged) as old, _opened(path) as new:
        tables = [row[0] for row in new.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            known = [row[1] for row in new.execute(f"PRAGMA table_info({table})")]
            columns = _common(old, table, known)
            if not columns:
                continue
            names, marks = ", ".join(columns), ", ".join("?" * len(columns))
            # The row of a single-row table, such as the last id, is replaced.
            single = not any(row[5] for row in new.execute(f"PRAGMA table_info({table})"))
            for rows in _read(old, table, names):
                new.execute("BEGIN")
                if single:
                    new.execute(f"DELETE FROM {table}")
                before = new.total_changes
                new.executemany(f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})", rows)
                count += new.total_changes - before
                new.execute("COMMIT")
                if single:
                    break
    return count


def _common(old: sqlite3.Connection, table: str, known: list[str]) -> list[str]:
    try:
        present = {row[1] for row in old.execute(f"PRAGMA table_info({table})")}
    except sqlite3.Error:
        return []
    return [name for name in known if name in present]


def _read(db: sqlite3.Connection, table: str, names: str) -> Iterator[list[tuple[object, ...]]]:
    """Yield rows in batches, forwards and backwards up to the damage. Intact rows may appear twice."""
    try:
        keys = [row[1] for row in db.execute(f"PRAGMA table_info({table})") if row[5]]
    except sqlite3.Error:
        return
    back = f" ORDER BY {', '.join(f'{key} DESC' for key in keys)}" if keys else ""
    for order in dict.fromkeys(("", back)):
        batch: list[tuple[object, ...]] = []
        whole = False
        try:
            for row in db.execute(f"SELECT {names} FROM {table}{order}"):
                batch.append(row)
                if len(batch) >= _BATCH:
                    yield batch
                    batch = []
            whole = True
        except sqlite3.Error:
            # The remaining rows of the table are behind the damage.
            whole = False
        if batch:
            yield batch
        if whole:
            return


def _drop_unreadable(path: Path) -> None:
    """Delete resources that can't be decoded, and make sure that new ids exceed the ids in use."""
    with _opened(path) as db:
        newest = 0
        for table, number_column, column, message in _rows():
            rows = db.execute(f"SELECT rowid, {number_column}, {column} FROM {table}").fetchall()
            for row_id, number, data in rows:
                newest = max(newest, number)
                try:
                    message.FromString(data)
                except (DecodeError, TypeError):
                    db.execute(f"DELETE FROM {table} WHERE rowid = ?", (row_id,))
        for name, data in db.execute("SELECT name, body FROM resources").fetchall():
            try:
                kind_of(name).message.FromString(data)
            except (DecodeError, TypeError, LookupError):
                db.execute("DELETE FROM resources WHERE name = ?", (name,))
        last = db.execute("SELECT max(last) FROM ids").fetchone()[0] or 0
        db.execute("DELETE FROM ids")
        db.execute("INSERT INTO ids VALUES (?)", (max(last, newest),))


def _rows() -> Iterator[tuple[str, str, str, Any]]:
    """Yield the tables with numbered rows: name, number column, message column, message class."""
    yield "operations", "id", "operation", operations_pb2.Operation
    for kind in JOB_KINDS:
        yield kind.table.TABLE, kind.table.NUMBER, kind.table.BODY, kind.table.PB
