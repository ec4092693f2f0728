"""Buckets and objects as folders and files; their other metadata is in one SQLite file.

A file that a job writes through /gcs is an object too. An object's row in the database is valid only while
the file has the size, time and inode of the row. The store is not thread-safe.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import mimetypes
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import google_crc32c

from tui.emulator.storage.names import after_prefix, check_bucket, file_of, is_bucket, walk

PART_FOLDER = ".uploads"
"""Folder of part files on the buckets' file system; no bucket's name begins with a dot."""
BLOCK = 1024 * 1024
_SCHEMA = """
CREATE TABLE IF NOT EXISTS buckets (
    name TEXT PRIMARY KEY, created INTEGER NOT NULL, updated INTEGER NOT NULL,
    metageneration INTEGER NOT NULL, body TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS objects (
    bucket TEXT NOT NULL, name TEXT NOT NULL, generation INTEGER NOT NULL, metageneration INTEGER NOT NULL,
    size INTEGER NOT NULL, mtime INTEGER NOT NULL, inode INTEGER NOT NULL,
    crc32c TEXT NOT NULL, md5 TEXT NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL,
    body TEXT NOT NULL, PRIMARY KEY (bucket, name)
) WITHOUT ROWID;
"""


class StoreError(Exception):
    """A failed request: HTTP status, the service's reason and a message."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason = status, reason


@dataclass(frozen=True, slots=True)
class StoredBucket:
    """A bucket. Times are in µs since the epoch; `body` has the client-settable fields in REST format."""

    name: str
    created: int
    updated: int
    metageneration: int = 1
    body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object. `size` in bytes, `mtime` in ns, times in µs; `crc32c` and `md5` in base64.

    `md5` is empty for a composed object, as in the cloud; `crc32c` is empty until a client requests it.
    """

    bucket: str
    name: str
    generation: int
    metageneration: int
    size: int
    mtime: int
    inode: int
    crc32c: str
    md5: str
    created: int
    updated: int
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Preconditions:
    """Conditions on the current object; generation 0 means that none exists."""

    generation: int | None = None
    not_generation: int | None = None
    metageneration: int | None = None
    not_metageneration: int | None = None

    def check(self, current: StoredObject | None) -> None:
        """Check the current object. Raises StoreError 412."""
        generation = current.generation if current else 0
        metageneration = current.metageneration if current else 0
        wrong = (
            self.generation not in {None, generation}
            or self.not_generation == generation
            or self.metageneration not in {None, metageneration}
            or self.not_metageneration == metageneration
        )
        if wrong:
            raise StoreError(
                412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold."
            )


@dataclass(frozen=True, slots=True)
class NewObject:
    """An object to create: its name, the fields that a client may set, and conditions on the old object."""

    bucket: str
    name: str
    body: Mapping[str, Any] = field(default_factory=dict)
    conditions: Preconditions = field(default_factory=Preconditions)


@dataclass(frozen=True, slots=True)
class ObjectPage:
    """A page of a list. The next page begins at `more`."""

    items: tuple[StoredObject, ...]
    prefixes: tuple[str, ...]
    more: str = ""


_COLUMNS = tuple(f.name for f in fields(StoredObject))
_BUCKET_TYPES, _OBJECT_TYPES = (
    tuple({"str": str, "int": int}.get(str(f.type), dict) for f in fields(kind))
    for kind in (StoredBucket, StoredObject)
)


class BucketStore:
    """All buckets of one emulator: folders of `root`, and the database `file`.

    Every method may raise sqlite3.Error, including for a row that can't be decoded.
    """

    def __init__(self, root: Path, file: Path) -> None:
        """Open the store. Raises sqlite3.Error, OSError."""
        self.root = root
        self.parts = root / PART_FOLDER
        self.parts.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._db = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_SCHEMA)
        except sqlite3.Error:
            self._db.close()
            raise

    def close(self) -> None:
        self._db.close()

    def part_file(self, key: str, suffix: str) -> Path:
        """Return a file of the upload with this id."""
        return self.parts / f"{key}.{suffix}"

    # -- buckets

    def buckets(self) -> Iterator[StoredBucket]:
        """Yield all buckets by name."""
        for name in sorted(p.name for p in self.root.iterdir() if is_bucket(p.name) and p.is_dir()):
            yield self.bucket(name)

    def bucket(self, name: str) -> StoredBucket:
        """Return a bucket. Raises StoreError 404."""
        try:
            status = self.folder(name).stat()
        except OSError:
            raise no_bucket() from None
        row = self._db.execute("SELECT * FROM buckets WHERE name = ?", [name]).fetchone()
        if row:
            return bucket_of(row)
        created = status.st_mtime_ns // 1000
        return StoredBucket(name, created, created)

    def folder(self, bucket: str) -> Path:
        """Return the folder of an existing bucket. Raises StoreError 404, InvalidObjectName."""
        path = self.root / check_bucket(bucket)
        if not path.is_dir():
            raise no_bucket()
        return path

    def create_bucket(self, name: str, body: Mapping[str, Any]) -> StoredBucket:
        """Create a bucket. Raises StoreError 409, InvalidObjectName, OSError."""
        try:
            (self.root / check_bucket(name)).mkdir()
        except FileExistsError:
            raise StoreError(
                409,
                "conflict",
                "Your previous request to create the named bucket succeeded and you already own it.",
            ) from None
        now = _now()
        return self._save_bucket(StoredBucket(name, now, now, 1, dict(body)))

    def change_bucket(self, name: str, body: Mapping[str, Any]) -> StoredBucket:
        """Replace the bucket's `body`. Raises StoreError 404."""
        stored = self.bucket(name)
        changed = replace(stored, body=dict(body), updated=_now(), metageneration=stored.metageneration + 1)
        return self._save_bucket(changed)

    def delete_bucket(self, name: str) -> None:
        """Delete an empty bucket. Raises StoreError 404, or 409 if it has objects."""
        folder = self.folder(name)
        if next(walk(str(folder), "", "", lambda n: self._row(name, n) is not None), None):
            raise StoreError(409, "conflict", "The bucket you tried to delete is not empty.")
        _remove_empty(folder)
        self._db.execute("DELETE FROM buckets WHERE name = ?", [name])
        self._db.execute("DELETE FROM objects WHERE bucket = ?", [name])

    def _save_bucket(self, stored: StoredBucket) -> StoredBucket:
        self._db.execute(
            "REPLACE INTO buckets VALUES (?, ?, ?, ?, ?)",
            [stored.name, stored.created, stored.updated, stored.metageneration, json.dumps(stored.body)],
        )
        return stored

    # -- objects

    def path(self, bucket: str, name: str) -> Path:
        """Return the file of an object that may exist. Raises StoreError 404 for the bucket,
        InvalidObjectName."""
        return file_of(self.folder(bucket), name)

    def find(self, bucket: str, name: str) -> StoredObject | None:
        """Return the current object, if it exists. Raises StoreError 404 for the bucket,
        InvalidObjectName."""
        path = self.path(bucket, name)
        row = self._row(bucket, name)
        try:
            status = path.lstat()
        except OSError:
            status = None
        is_folder = name.endswith("/")
        there = status is not None and (
            path.is_dir() and row is not None if is_folder else path.is_file() and not path.is_symlink()
        )
        if status is None or not there:
            if row is not None:
                self._delete_row(bucket, name)
            return None
        if is_folder:
            return row
        return _current(bucket, name, status, row)

    def get(self, bucket: str, name: str) -> StoredObject:
        """Return an existing object. Raises StoreError 404."""
        obj = self.find(bucket, name)
        if obj is None:
            raise StoreError(404, "notFound", f"No such object: {bucket}/{name}")
        return obj

    def put(self, new: NewObject, part: Path, checksums: tuple[str, str]) -> StoredObject:
        """Move the file `part` to the object's file, so that the old object is replaced atomically.

        Raises:
            StoreError: 404 for the bucket, 412, 409 where one name would be a file and a folder.
            OSError: if the disk is full.
        """
        bucket, name = new.bucket, new.name
        path = self.path(bucket, name)
        old = self.find(bucket, name)
        new.conditions.check(old)
        self._prepare_path(path, bucket, name)
        if name.endswith("/"):
            path.mkdir(exist_ok=True)
            part.unlink()
        else:
            part.replace(path)
        status = path.stat()
        now = _now()
        generation = max(now, (old.generation if old else 0) + 1)
        size = 0 if name.endswith("/") else status.st_size
        known = (size, status.st_mtime_ns, status.st_ino)
        crc32c, md5 = checksums
        body = dict(new.body)
        return self.save(StoredObject(bucket, name, generation, 1, *known, crc32c, md5, now, now, body))

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the enclosed writes in one transaction."""
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.execute("COMMIT")

    def change(self, obj: StoredObject, body: Mapping[str, Any]) -> StoredObject:
        """Replace the object's `body`."""
        return self.save(replace(obj, body=dict(body), updated=_now(), metageneration=obj.metageneration + 1))

    def save(self, obj: StoredObject) -> StoredObject:
        """Store an object's row."""
        values = [getattr(obj, column) for column in _COLUMNS[:-1]]
        marks = ", ".join("?" * len(_COLUMNS))
        self._db.execute(f"REPLACE INTO objects VALUES ({marks})", [*values, json.dumps(obj.body)])
        return obj

    def delete(self, bucket: str, name: str) -> None:
        """Delete an existing object. Raises OSError."""
        path = self.path(bucket, name)
        if name.endswith("/"):
            with contextlib.suppress(OSError):  # the placeholder stays while its folder has objects
                path.rmdir()
        else:
            path.unlink(missing_ok=True)
        self._delete_row(bucket, name)

    def page(
        self, bucket: str, *, prefix: str, delimiter: str, start: str, end: str, limit: int, trailing: bool
    ) -> ObjectPage:
        """Return the objects from `start` on and before `end` ("" for no end), at most `limit` with the
        prefixes."""
        folder = str(self.folder(bucket))
        items: list[StoredObject] = []
        prefixes: list[str] = []
        while True:
            next_start = ""
            for name, entry in walk(folder, prefix, start, lambda n: self._row(bucket, n) is not None):
                if end and name >= end:
                    return ObjectPage(tuple(items), tuple(prefixes))
                if len(items) + len(prefixes) >= limit:
                    return ObjectPage(tuple(items), tuple(prefixes), name)
                cut = name.find(delimiter, len(prefix)) if delimiter else -1
                group = name[: cut + len(delimiter)] if cut >= 0 else ""
                if not group or (trailing and group == name):
                    items.extend(self._listed(bucket, name, entry))
                if group:
                    prefixes.append(group)
                    next_start = after_prefix(group)
                    break
            if not next_start:
                return ObjectPage(tuple(items), tuple(prefixes))
            start = next_start

    def _prepare_path(self, path: Path, bucket: str, name: str) -> None:
        """Create the folders above `path`; remove a folder at `path` that has no objects."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise _path_conflict(bucket, name) from None
        is_folder = path.is_dir() and not path.is_symlink()
        if name.endswith("/"):
            if path.exists() and not is_folder:
                raise _path_conflict(bucket, name)
        elif is_folder:
            below = walk(str(path), "", "", lambda n: self._row(bucket, f"{name}/{n}") is not None)
            if self._row(bucket, f"{name}/") or next(below, None):
                raise _path_conflict(bucket, name)
            _remove_empty(path)

    def _listed(self, bucket: str, name: str, entry: os.DirEntry[str]) -> list[StoredObject]:
        row = self._row(bucket, name)
        if name.endswith("/"):
            return [row] if row else []
        try:
            return [_current(bucket, name, entry.stat(follow_symlinks=False), row)]
        except OSError:  # deleted in the meantime
            return []

    def _row(self, bucket: str, name: str) -> StoredObject | None:
        row = self._db.execute(
            "SELECT * FROM objects WHERE bucket = ? AND name = ?", [bucket, name]
        ).fetchone()
        return None if row is None else object_of(row)

    def _delete_row(self, bucket: str, name: str) -> None:
        self._db.execute("DELETE FROM objects WHERE bucket = ? AND name = ?", [bucket, name])


def bucket_of(row: Sequence[Any]) -> StoredBucket:
    """Return the bucket of a row. Raises sqlite3.DatabaseError for a damaged row."""
    return StoredBucket(*_checked(row, _BUCKET_TYPES))


def object_of(row: Sequence[Any]) -> StoredObject:
    """Return the object of a row. Raises sqlite3.DatabaseError for a damaged row."""
    return StoredObject(*_checked(row, _OBJECT_TYPES))


def _checked(row: Sequence[Any], types: Sequence[type]) -> list[Any]:
    """Check the types of a row's values: SQLite does not detect damage within a value."""
    try:
        values = [*row[:-1], json.loads(row[-1])]
    except (TypeError, ValueError):
        values = []
    if len(values) != len(types) or not all(map(isinstance, values, types)):
        raise sqlite3.DatabaseError(f"the row of {'/'.join(map(repr, row[:2]))} is malformed")
    return values


def no_bucket() -> StoreError:
    return StoreError(404, "notFound", "The specified bucket does not exist.")


def checksums_of(path: Path) -> tuple[str, str]:
    """Return CRC32C and MD5 of a file in base64, as the service does. Raises OSError."""
    crc, md5 = google_crc32c.Checksum(), hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            crc.update(block)
            md5.update(block)
    return base64.b64encode(crc.digest()).decode(), base64.b64encode(md5.digest()).decode()


def join_files(part: Path, sources: Sequence[Path]) -> None:
    """Write the contents of the sources to the new file `part`. Raises OSError."""
    with part.open("xb") as target:
        for source in sources:
            if source.is_dir():  # a placeholder of a folder has no content
                continue
            with source.open("rb") as file:
                shutil.copyfileobj(file, target, BLOCK)


def _current(bucket: str, name: str, status: os.stat_result, row: StoredObject | None) -> StoredObject:
    """Return the database's row if it describes this file, else the file as a new object."""
    known = (status.st_size, status.st_mtime_ns, status.st_ino)
    if row is not None and known == (row.size, row.mtime, row.inode):
        return row
    written = status.st_mtime_ns // 1000
    generation = max(written, row.generation + 1 if row else 0)
    body = {"contentType": mimetypes.guess_type(name)[0] or "application/octet-stream"}
    return StoredObject(bucket, name, generation, 1, *known, "", "", written, written, body)


def _remove_empty(folder: Path) -> None:
    """Remove a tree of empty folders. Raises OSError if a folder is not empty."""
    for above, _folders, _files in os.walk(folder, topdown=False):
        Path(above).rmdir()


def _path_conflict(bucket: str, name: str) -> StoreError:
    return StoreError(
        409,
        "conflict",
        f"{bucket}/{name}: another object has this name as a folder or file. The emulator stores objects as "
        "files, and a name can't be both a file and a folder; choose another name.",
    )


def _now() -> int:
    return time.time_ns() // 1000
