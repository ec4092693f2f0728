"""Log entries and how far each output file has been read, in one SQLite file (WAL).

Entries are clustered by source (one log of one resource), then timestamp and insert_id; a list over many
sources is a merge of their orders. All writes happen in one thread, so an entry and the offset behind it
are one transaction; reads have threads and connections of their own and never wait for a write.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

from tui.emulator.database import DatabaseError
from tui.emulator.logging.faults import FaultBoard
from tui.emulator.logging.record import Record, Row, Source

log = logging.getLogger(__name__)

T = TypeVar("T")
P = ParamSpec("P")

VERSION = 1
READERS = 3
SLICE = 5_000
"""Entries that are deleted in one transaction."""
FIRST, LAST = 0, 2**63 - 1
"""Timestamps before and after every other."""
_SCHEMA = """
CREATE TABLE sources (
    id INTEGER PRIMARY KEY, project TEXT NOT NULL, log_name TEXT NOT NULL,
    resource_type TEXT NOT NULL, resource_labels TEXT NOT NULL,
    UNIQUE (project, log_name, resource_type, resource_labels)
);
CREATE TABLE entries (
    source INTEGER NOT NULL, timestamp INTEGER NOT NULL, insert_id TEXT NOT NULL,
    severity INTEGER NOT NULL, kind INTEGER NOT NULL, payload NOT NULL, received INTEGER NOT NULL,
    PRIMARY KEY (source, timestamp, insert_id)
) WITHOUT ROWID;
CREATE TABLE streams (
    key TEXT PRIMARY KEY, project TEXT NOT NULL, location TEXT NOT NULL, job TEXT NOT NULL,
    attempt INTEGER NOT NULL, replica TEXT NOT NULL, stream TEXT NOT NULL,
    offset INTEGER NOT NULL, last INTEGER NOT NULL, done INTEGER NOT NULL
) WITHOUT ROWID;
"""
_COLUMNS = "source, timestamp, insert_id, severity, kind, payload, received"

Listener = Callable[[Sequence[Record]], None]
"""Called in the writer's thread with entries that have just been committed."""


@dataclass(frozen=True, slots=True)
class Window:
    """Which rows of a source: timestamps from `first` to `last`, severity and receipt at least that."""

    first: int = FIRST
    last: int = LAST
    severity: int = 0
    received: int = FIRST
    received_last: int = LAST
    """Earliest and latest time of receipt."""


class LogStore:
    """The file `logs.db`.

    Raises:
        DatabaseError: when it can't be used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults = FaultBoard()
        self._late: list[Record] = []
        self._late_most = 1000
        self._late_lock = threading.Lock()
        self._listeners: list[Listener] = []
        self._sources: dict[int, Source] = {}
        self._known: dict[tuple[str, str, str, str], Source] = {}
        self._local = threading.local()
        self._reading: list[sqlite3.Connection] = []
        self._closed = threading.Event()
        try:
            self._db = self._open()
        except sqlite3.Error as error:
            raise DatabaseError(f"can't use {path}: {error}") from error
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="logs-write")
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="logs-read")

    def close(self) -> None:
        """Finish what is under way and close the file. Idempotent."""
        self._closed.set()
        self._writer.shutdown()
        self._readers.shutdown()
        for db in (*self._reading, self._db):
            db.close()

    @property
    def closed(self) -> bool:
        """Long reads look at this and end early."""
        return self._closed.is_set()

    async def write(self, work: Callable[P, T], *args: P.args, **kw: P.kwargs) -> T:
        """Run `work` in the writer's thread, where the methods below that change something belong."""
        return await asyncio.get_running_loop().run_in_executor(self._writer, lambda: work(*args, **kw))

    async def read(self, work: Callable[P, T], *args: P.args, **kw: P.kwargs) -> T:
        """Run `work` in a reader's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, lambda: work(*args, **kw))

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with everything committed from now on; the answer ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    # In the writer's thread.

    def source(
        self, project: str, log_name: str, resource_type: str, resource_labels: Mapping[str, str]
    ) -> Source:
        """The source of that description, made where it is new."""
        labels = json.dumps(dict(resource_labels), sort_keys=True, ensure_ascii=False)
        key = (project, log_name, resource_type, labels)
        if key not in self._known:
            with self._db:
                self._db.execute(
                    "INSERT OR IGNORE INTO sources (project, log_name, resource_type, resource_labels)"
                    " VALUES (?,?,?,?)",
                    key,
                )
            self._load_sources()
        return self._known[key]

    def add(
        self,
        rows: Sequence[Row],
        offsets: Iterable[tuple[int, int, int, str]] = (),
        *,
        fresh: bool = False,
    ) -> int:
        """Store rows, and with them (offset, last timestamp, done, stream key), in one transaction.

        A row whose source, timestamp and insert_id are there already is left out; `fresh` says that none
        can be. Returns how many were new. Raises sqlite3.Error with nothing changed.
        """
        rows = self.faults.current.delayed(rows)
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            new = rows if fresh or not self._listeners else self._new(rows)
            before = self._db.total_changes
            self._db.executemany("INSERT OR IGNORE INTO entries VALUES (?,?,?,?,?,?,?)", new)
            count = self._db.total_changes - before
            self._db.executemany("UPDATE streams SET offset=?, last=?, done=? WHERE key=?", offsets)
        if self.faults.current.late_share:
            self._keep_late(new)
        if self._listeners and new:
            records = [Record(self._sources[row[0]], row) for row in new]
            for listener in tuple(self._listeners):
                try:
                    listener(records)
                except Exception:
                    # The entries are stored; one reader's trouble is not the writer's.
                    log.exception("a tail failed on new entries")
        return count

    def _keep_late(self, rows: Sequence[Row]) -> None:
        now = time.time_ns()
        late = [Record(self._sources[row[0]], row) for row in rows if row[6] > now]
        with self._late_lock:
            self._late += late
            if len(self._late) > self._late_most:
                self._late = [record for record in self._late if record.row[6] > now]
                self._late_most = max(1000, 2 * len(self._late))

    def late(self) -> list[Record]:
        """Entries that are stored and will be received later, for a reader that comes now (any thread)."""
        with self._late_lock:
            return list(self._late)

    def _new(self, rows: Sequence[Row]) -> list[Row]:
        """Without rows that are stored already, or twice here: listeners must not hear of those."""
        asked = "SELECT 1 FROM entries WHERE source=? AND timestamp=? AND insert_id=?"
        first = {row[:3]: row for row in reversed(rows)}
        return [
            row for row in rows if first[row[:3]] is row and not self._db.execute(asked, row[:3]).fetchone()
        ]

    def delete_log(self, project: str, log_name: str) -> int:
        """Delete a log's entries; returns how many there were."""
        with self._db:
            return self._db.execute(
                "DELETE FROM entries WHERE source IN (SELECT id FROM sources WHERE project=? AND log_name=?)",
                (project, log_name),
            ).rowcount

    def delete_before(self, source: Source, timestamp: int) -> int:
        """Delete the oldest entries of a source before a timestamp (ns); how many, 0 where none is left.

        Never more than a slice: other writers wait for it.
        """
        last = self._db.execute(
            "SELECT max(timestamp) FROM (SELECT timestamp FROM entries WHERE source=? AND timestamp<?"
            " ORDER BY timestamp LIMIT ?)",
            (source.id, timestamp, SLICE),
        ).fetchone()[0]
        if last is None:
            return 0
        with self._db:
            return self._db.execute(
                "DELETE FROM entries WHERE source=? AND timestamp<=?", (source.id, last)
            ).rowcount

    def database(self) -> sqlite3.Connection:
        """The writer's connection, for the collector's own table `streams`."""
        return self._db

    # In any thread.

    def sources(self) -> list[Source]:
        """Every source there is."""
        return list(self._sources.values())

    def has_entries(self, source: Source) -> bool:
        """Whether anything is stored under a source (reader's thread)."""
        asked = "SELECT 1 FROM entries WHERE source=? LIMIT 1"
        return self._reader().execute(asked, (source.id,)).fetchone() is not None

    def scan(
        self,
        sources: Sequence[Source],
        window: Window,
        *,
        newest_first: bool,
        after: tuple[int, str, int] | None = None,
    ) -> Iterator[Record]:
        """Records of these sources in order of their keys, merged lazily (reader's thread).

        With `newest_first` timestamps fall; entries of one timestamp are in order of insert_id either way.
        """
        found = [self._rows(source, window, newest_first, after) for source in sources]
        if len(found) == 1:
            return found[0]
        if newest_first:
            return heapq.merge(*found, key=lambda r: (-r.row[1], r.row[2], r.row[0]))
        return heapq.merge(*found, key=lambda r: r.key)

    def _rows(
        self, source: Source, window: Window, newest_first: bool, after: tuple[int, str, int] | None
    ) -> Iterator[Record]:
        first, last = window.first, window.last
        if after is not None:
            # The rest of the timestamp that the last page ended in, then what is beyond it.
            timestamp, insert_id, page_source = after
            if first <= timestamp <= last:
                sign = ">=" if source.id > page_source else ">"
                yield from self._select(
                    source, f"timestamp = ? AND insert_id {sign} ?", (timestamp, insert_id), window, False
                )
            first, last = (
                (first, min(last, timestamp - 1)) if newest_first else (max(first, timestamp + 1), last)
            )
        if first <= last:
            yield from self._select(source, "timestamp BETWEEN ? AND ?", (first, last), window, newest_first)

    def _select(
        self, source: Source, where: str, values: tuple[object, ...], window: Window, newest_first: bool
    ) -> Iterator[Record]:
        order = "timestamp DESC, insert_id" if newest_first else "timestamp, insert_id"
        rows = self._reader().execute(
            f"SELECT {_COLUMNS} FROM entries WHERE source = ? AND {where} AND severity >= ?"
            f" AND received BETWEEN ? AND ? ORDER BY {order}",
            # An entry that is late is not there yet.
            (source.id, *values, window.severity, window.received, min(window.received_last, time.time_ns())),
        )
        for row in rows:
            yield Record(source, row)

    def _reader(self) -> sqlite3.Connection:
        db: sqlite3.Connection | None = getattr(self._local, "db", None)
        if db is None:
            db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=10)
            db.execute("PRAGMA query_only = ON")
            self._local.db = db
            self._reading.append(db)
        return db

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=10)
        db.execute("PRAGMA journal_mode = WAL")
        # What a power cut may take is read again from the output files: their offsets go with it.
        db.execute("PRAGMA synchronous = NORMAL")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            db.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
        elif version != VERSION:
            raise DatabaseError(
                f"{self.path} was written by another version of vxtui (layout {version}, this one reads "
                f"{VERSION}); use that version, or choose another state directory"
            )
        self._db = db
        self._load_sources()
        return db

    def _load_sources(self) -> None:
        newest = max(self._sources, default=0)
        rows = self._db.execute(
            "SELECT id, project, log_name, resource_type, resource_labels FROM sources WHERE id > ?",
            (newest,),
        )
        for number, project, log_name, kind, labels in rows:
            source = Source(number, project, log_name, kind, json.loads(labels))
            self._sources[number] = self._known[project, log_name, kind, labels] = source
