"""The objects on disk: an SQLite database in WAL mode with one row per object."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tui.emulator.database import REPAIR
from tui.emulator.kubernetes.errors import ApiStorageFull
from tui.emulator.kubernetes.resources import ApiResource, Obj

VERSION = 1
_SCHEMA = """
CREATE TABLE counter (last INTEGER NOT NULL);
INSERT INTO counter VALUES (0);
CREATE TABLE objects (
  grp TEXT NOT NULL, version TEXT NOT NULL, plural TEXT NOT NULL,
  namespace TEXT NOT NULL, name TEXT NOT NULL, data BLOB NOT NULL,
  PRIMARY KEY (grp, version, plural, namespace, name)
) WITHOUT ROWID;
"""


class ObjectDatabaseError(Exception):
    """The file can't be opened or has another layout. The message names the file and the remedy."""


@dataclass(frozen=True, slots=True)
class ObjectRow:
    """One stored object."""

    group: str
    version: str
    plural: str
    data: bytes


@dataclass(slots=True)
class Stored:
    """An object and its JSON, which lists and watches send unchanged."""

    obj: Obj
    raw: bytes
    version: int


class ObjectDatabase:
    """The database file of one server. Each call is one transaction, which survives the process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db: sqlite3.Connection | None = None

    def open(self) -> int:
        """Open or create the file and return the last resource version. Raises ObjectDatabaseError if the
        file can't be used."""
        try:
            self._db = db = sqlite3.connect(self.path, isolation_level=None, timeout=10)
            db.execute("PRAGMA journal_mode = WAL")
            # A commit survives the process; only a crash of the machine may lose the newest commits.
            db.execute("PRAGMA synchronous = NORMAL")
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                db.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
            elif version != VERSION:
                raise ObjectDatabaseError(
                    f"{self.path} was written by another version of vxtui (layout {version}, but this "
                    f"version reads {VERSION}); use that version, or choose another state directory"
                )
            last: int = db.execute("SELECT last FROM counter").fetchone()[0]
            return last
        except sqlite3.Error as error:
            self.close()
            raise ObjectDatabaseError(
                f"{self.path} can't be read: {error}; {REPAIR}, or choose another state directory"
            ) from error

    def rows(self) -> Iterator[ObjectRow]:
        """Yield all stored objects. Raises ObjectDatabaseError."""
        assert self._db is not None
        try:
            for row in self._db.execute("SELECT grp, version, plural, data FROM objects"):
                yield ObjectRow(*row)
        except sqlite3.Error as error:
            raise ObjectDatabaseError(f"{self.path} can't be read: {error}; {REPAIR}") from error

    def read(self, row: ObjectRow) -> Stored:
        """Return the object of a row. Raises ObjectDatabaseError."""
        try:
            obj = json.loads(row.data)
            return Stored(obj, row.data, int(obj["metadata"]["resourceVersion"]))
        except (ValueError, KeyError, TypeError) as error:
            raise ObjectDatabaseError(
                f"{self.path} has an object of {row.plural} that can't be read: {error!r}; {REPAIR}"
            ) from error

    def put(self, resource: ApiResource, namespace: str, name: str, data: bytes, last: int) -> None:
        """Insert or replace one object. Raises ApiStorageFull if nothing was written."""
        values = (resource.group, resource.version, resource.plural, namespace, name, data)
        self._write("INSERT OR REPLACE INTO objects VALUES (?,?,?,?,?,?)", values, last)

    def remove(self, resource: ApiResource, namespace: str, name: str, last: int) -> None:
        """Delete one object. Raises ApiStorageFull if nothing was deleted."""
        values = (resource.group, resource.version, resource.plural, namespace, name)
        statement = "DELETE FROM objects WHERE grp=? AND version=? AND plural=? AND namespace=? AND name=?"
        self._write(statement, values, last)

    def _write(self, statement: str, values: tuple[object, ...], last: int) -> None:
        assert self._db is not None
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute(statement, values)
            self._db.execute("UPDATE counter SET last = ?", (last,))
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise ApiStorageFull(f"can't write {self.path}: {error}") from error

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
