"""Log entries and the read offset of each output file, in one SQLite file (WAL).

Entries are clustered by source (one log of one resource), then timestamp and insert_id; a list over several
sources merges their entries. Older entries are in compressed blocks (`entry_blocks`), newer entries in rows.
One thread does all writes, so an entry and the offset after it are stored in one transaction; reads have
their own threads and connections and never wait for a write.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import logging
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import ParamSpec, TypeVar

from tui.emulator.database import DatabaseError, unusable
from tui.emulator.logging.entry_blocks import BLOCK, BlockHead, BlockTable
from tui.emulator.logging.entry_blocks import SCHEMA as BLOCKS
from tui.emulator.logging.faults import ActiveLogFaults
from tui.emulator.logging.record import EntryRow, LogSource, ReceiptClock, StoredEntry

log = logging.getLogger(__name__)

T = TypeVar("T")
P = ParamSpec("P")

VERSION = 2
_WITHOUT_BLOCKS = 1
"""Previous layout version, with rows only."""
READERS = 3
_BUSY_SECONDS = 10
_INCREMENTAL = 2
"""SQLite's number of the incremental vacuum mode."""
_FREE_PAGES = 256
"""Number of unused pages that stay in the file for new entries."""
_PAGES_PER_STEP = 2000
"""Number of pages freed per step, because other writers wait for the step."""
DELETE_BATCH = 5_000
"""Maximum number of entries deleted in one transaction."""
FIRST, LAST = 0, 2**63 - 1
"""Timestamps before and after all other timestamps."""
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
COLUMNS = "source, timestamp, insert_id, severity, kind, payload, received"

Listener = Callable[[Sequence[StoredEntry]], None]
"""A callback that receives the entries of each commit in the writer's thread."""


@dataclass(frozen=True, slots=True)
class RowRange:
    """Range of a source's rows: timestamps from `first` to `last`, a minimum severity, receive times."""

    first: int = FIRST
    last: int = LAST
    severity: int = 0
    received: int = FIRST
    received_last: int = LAST
    """Latest receive time. `received` is the earliest."""
    either: tuple[int, int] = (FIRST, FIRST)
    """Earliest timestamp and earliest receive time. An entry must reach at least one of these bounds."""

    def holds(self, timestamp: int, severity: int, received: int) -> bool:
        """Return whether an entry is in the range."""
        return (
            self.first <= timestamp <= self.last
            and severity >= self.severity
            and self.received <= received <= self.received_last
            and (timestamp >= self.either[0] or received >= self.either[1])
        )

    def may_hold(self, head: BlockHead) -> bool:
        """Return whether entries of a block may be in the range."""
        return (
            self.first <= head.last
            and head.first <= self.last
            and head.severity >= self.severity
            and self.received <= head.received_last
            and head.received <= self.received_last
            and (head.last >= self.either[0] or head.received_last >= self.either[1])
        )


def _follows(row: EntryRow, after: tuple[int, str, int], newest_first: bool) -> bool:
    """Return whether a row comes after the entry that ended the last page."""
    if row[1] != after[0]:
        return (row[1] < after[0]) == newest_first
    return (row[2], row[0]) > after[1:]


class EntryStore:
    """The file `logs.db`. Raises DatabaseError when the file can't be used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.receipts = ReceiptClock(path)
        self.faults = ActiveLogFaults()
        self._late: list[StoredEntry] = []
        self._late_limit = 1000
        self._late_lock = threading.Lock()
        self._listeners: list[Listener] = []
        self._sources: dict[int, LogSource] = {}
        self._known: dict[tuple[str, str, str, str], LogSource] = {}
        self._local = threading.local()
        self._reading: list[sqlite3.Connection] = []
        self._closed = threading.Event()
        self.blocks = BlockTable()
        self.added: dict[int, tuple[int, float]] = {}
        """Number of new entries not yet considered for blocks, and the time of the last of these entries, by
        source."""
        try:
            self._db = self._open()
        except sqlite3.Error as error:
            raise unusable(path, error) from error
        self.before_write: Callable[[], None] = lambda: None
        """A callback in each transaction that adds entries; sqlite3.Error from it refuses the transaction."""
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="logs-write")
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="logs-read")

    def close(self) -> None:
        """Finish the reads and writes in progress and close the file. Idempotent."""
        self._closed.set()
        self._writer.shutdown()
        self._readers.shutdown()
        for db in (*self._reading, self._db):
            db.close()

    @property
    def closed(self) -> bool:
        """Whether `close` was called; long reads then end early."""
        return self._closed.is_set()

    async def write(self, work: Callable[P, T], *args: P.args, **kw: P.kwargs) -> T:
        """Run `work` in the writer's thread, as the writing methods below require."""
        return await asyncio.get_running_loop().run_in_executor(self._writer, lambda: work(*args, **kw))

    async def read(self, work: Callable[P, T], *args: P.args, **kw: P.kwargs) -> T:
        """Run `work` in a reader's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, lambda: work(*args, **kw))

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` after each commit; the returned function removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    # -- in the writer's thread

    def source(
        self, project: str, log_name: str, resource_type: str, resource_labels: Mapping[str, str]
    ) -> LogSource:
        """Return the source with these properties, creating the source if necessary."""
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
        rows: Sequence[EntryRow],
        offsets: Iterable[tuple[int, int, int, str]] = (),
        *,
        fresh: bool = False,
    ) -> int:
        """Store rows, and with them (offset, last timestamp, done, stream key), in one transaction.

        Rows whose source, timestamp and insert_id are already stored are ignored; `fresh` means that no row
        is stored. Return the number of new rows. After sqlite3.Error nothing has changed.
        """
        rows = self.faults.current.delayed(rows)
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self.before_write()
            new = rows if fresh else self._new(rows)
            before = self._db.total_changes
            self._db.executemany("INSERT OR IGNORE INTO entries VALUES (?,?,?,?,?,?,?)", new)
            count = self._db.total_changes - before
            for source, number in Counter(row[0] for row in new).items():
                self.added[source] = (self.added.get(source, (0, 0.0))[0] + number, time.monotonic())
            self._db.executemany("UPDATE streams SET offset=?, last=?, done=? WHERE key=?", offsets)
        if self.faults.current.late_share:
            self._keep_late(new)
        if self._listeners and new:
            records = [StoredEntry(self._sources[row[0]], row) for row in new]
            for listener in tuple(self._listeners):
                try:
                    listener(records)
                except Exception:
                    # The entries are stored; a failing reader must not fail the writer.
                    log.exception("a tail failed")
        return count

    def _keep_late(self, rows: Sequence[EntryRow]) -> None:
        now = self.receipts.time_ns()
        late = [StoredEntry(self._sources[row[0]], row) for row in rows if row[6] > now]
        with self._late_lock:
            self._late += late
            if len(self._late) > self._late_limit:
                self._late = [record for record in self._late if record.row[6] > now]
                self._late_limit = max(1000, 2 * len(self._late))

    def late(self) -> list[StoredEntry]:
        """Return stored entries whose receive time is in the future, for a new reader (any thread)."""
        with self._late_lock:
            return list(self._late)

    def _new(self, rows: Sequence[EntryRow]) -> list[EntryRow]:
        """Return the rows that are neither stored nor duplicated in `rows`."""
        query = "SELECT 1 FROM entries WHERE source=? AND timestamp=? AND insert_id=?"
        first = {row[:3]: row for row in reversed(rows)}
        return [
            row
            for row in rows
            if first[row[:3]] is row
            and not self._db.execute(query, row[:3]).fetchone()
            and not self.blocks.has(self._db, row)
        ]

    def delete_log(self, project: str, log_name: str) -> int:
        """Delete a log's entries; return their number."""
        ids = [(s.id,) for s in self.sources() if (s.project, s.log_name) == (project, log_name)]
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            before = self._db.total_changes
            self._db.executemany("DELETE FROM entries WHERE source=?", ids)
            deleted = self._db.total_changes - before
            for (source,) in ids:
                heads = list(self.blocks.between(self._db, source, FIRST, LAST))
                deleted += self.blocks.remove(self._db, heads)
        return deleted

    def delete_before(self, source: LogSource, timestamp: int) -> int:
        """Delete the oldest entries of a source before a timestamp (ns). Return their number.

        One call deletes about `DELETE_BATCH` entries, because other writers wait for it. A call deletes
        either all or no entries of a block.
        """
        blocks = self.blocks.between(self._db, source.id, FIRST, timestamp - 1)
        heads = [head for head in islice(blocks, max(1, DELETE_BATCH // BLOCK)) if head.last < timestamp]
        last = heads[-1].last if heads else self._last_row(source, timestamp)
        if last is None:
            return 0
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            deleted = self._db.execute(
                "DELETE FROM entries WHERE source=? AND timestamp<=?", (source.id, last)
            ).rowcount
            return deleted + self.blocks.remove(self._db, heads)

    def _last_row(self, source: LogSource, timestamp: int) -> int | None:
        """Return the timestamp up to which one batch of rows before `timestamp` reaches."""
        newest: int | None = self._db.execute(
            "SELECT max(timestamp) FROM (SELECT timestamp FROM entries WHERE source=? AND timestamp<?"
            " ORDER BY timestamp LIMIT ?)",
            (source.id, timestamp, DELETE_BATCH),
        ).fetchone()[0]
        return newest

    def used(self) -> int:
        """Return the number of used bytes of the file."""
        pages, free, size = (self._pragma(name) for name in ("page_count", "freelist_count", "page_size"))
        return (pages - free) * size

    def give_back_room(self) -> bool:
        """Free some space of deleted entries; return whether more can be freed."""
        free = self._pragma("freelist_count")
        if free <= _FREE_PAGES:
            return False
        if self._pragma("auto_vacuum") == _INCREMENTAL:
            # `execute` would run only the first step of the statement.
            self._db.executescript(f"PRAGMA incremental_vacuum({min(_PAGES_PER_STEP, free - _FREE_PAGES)})")
        elif free < self._pragma("page_count") // 2:
            return False
        else:
            # Rewrite a file of an earlier version once.
            self._db.execute("PRAGMA auto_vacuum = INCREMENTAL")
            self._db.execute("VACUUM")
        more = self._pragma("freelist_count") > _FREE_PAGES
        if not more:
            # Otherwise the write-ahead log retains the size of the deletion. Truncation waits for readers;
            # writers must not wait that long.
            self._db.execute("PRAGMA busy_timeout = 200")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self._db.execute(f"PRAGMA busy_timeout = {_BUSY_SECONDS * 1000}")
        return more

    def _pragma(self, name: str) -> int:
        return int(self._db.execute(f"PRAGMA {name}").fetchone()[0])

    def oldest(self) -> LogSource | None:
        """Return the source with the oldest entry, or `None` if there are no entries."""
        query = (
            "SELECT min(at) FROM (SELECT min(timestamp) AS at FROM entries WHERE source=:id"
            " UNION ALL SELECT min(first) FROM blocks WHERE source=:id)"
        )
        counts = ((self._db.execute(query, {"id": s.id}).fetchone()[0], s) for s in self.sources())
        return min(((at, s.id, s) for at, s in counts if at is not None), default=(0, 0, None))[2]

    def database(self) -> sqlite3.Connection:
        """Return the writer's connection, for the collector's own table `streams`."""
        return self._db

    # -- in any thread

    def sources(self) -> list[LogSource]:
        """Return all sources."""
        return list(self._sources.values())

    def has_entries(self, source: LogSource) -> bool:
        """Return whether a source has entries (reader's thread)."""
        query = (
            "SELECT EXISTS (SELECT 1 FROM entries WHERE source=:id)"
            " OR EXISTS (SELECT 1 FROM blocks WHERE source=:id)"
        )
        return bool(self._reader().execute(query, {"id": source.id}).fetchone()[0])

    def scan(
        self,
        sources: Sequence[LogSource],
        window: RowRange,
        *,
        newest_first: bool,
        after: tuple[int, str, int] | None = None,
    ) -> Generator[StoredEntry, None, None]:
        """Yield the entries of these sources in order of their keys, merged lazily (reader's thread).

        With `newest_first`, timestamps descend; entries with the same timestamp are in order of insert_id.
        Raises sqlite3.Error, including DamagedBlock for a block that can't be decoded.
        """
        key = (lambda r: (-r.row[1], r.row[2], r.row[0])) if newest_first else (lambda r: r.key)
        # A late entry is not visible yet.
        window = replace(window, received_last=min(window.received_last, self.receipts.time_ns()))
        # Use one snapshot: otherwise an entry packed in the meantime would be in both or in neither.
        with self._snapshot() as db:
            rows_ = [
                part
                for source in sources
                for part in (
                    self._rows(source, window, newest_first, after),
                    self._packed(db, source, window, newest_first, after),
                )
            ]
            yield from heapq.merge(*rows_, key=key)

    @contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        db = self._reader()
        if db.in_transaction:
            yield db
            return
        db.execute("BEGIN")
        try:
            yield db
        finally:
            if not self.closed:
                db.execute("COMMIT")

    def _packed(
        self,
        db: sqlite3.Connection,
        source: LogSource,
        window: RowRange,
        newest_first: bool,
        after: tuple[int, str, int] | None,
    ) -> Iterator[StoredEntry]:
        """Yield the entries in blocks."""
        first, last = window.first, window.last
        if after is not None:
            first, last = (first, min(last, after[0])) if newest_first else (max(first, after[0]), last)
        for head in self.blocks.between(db, source.id, first, last, newest_first=newest_first):
            if not window.may_hold(head):
                continue
            rows = self.blocks.rows(db, source.id, head.id)
            # The sort is stable: entries with equal timestamps stay in order.
            for row in sorted(rows, key=lambda row: -row[1]) if newest_first else rows:
                if window.holds(row[1], row[3], row[6]) and (
                    after is None or _follows(row, after, newest_first)
                ):
                    yield StoredEntry(source, row)

    def _rows(
        self, source: LogSource, window: RowRange, newest_first: bool, after: tuple[int, str, int] | None
    ) -> Iterator[StoredEntry]:
        first, last = window.first, window.last
        if after is not None:
            # Yield the remaining entries with the timestamp that ended the last page first, then the others.
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
        self, source: LogSource, where: str, values: tuple[object, ...], window: RowRange, newest_first: bool
    ) -> Iterator[StoredEntry]:
        order = "timestamp DESC, insert_id" if newest_first else "timestamp, insert_id"
        rows = self._reader().execute(
            f"SELECT {COLUMNS} FROM entries WHERE source = ? AND {where} AND severity >= ?"
            f" AND received BETWEEN ? AND ? AND (timestamp >= ? OR received >= ?) ORDER BY {order}",
            (
                source.id,
                *values,
                window.severity,
                window.received,
                window.received_last,
                *window.either,
            ),
        )
        for row in rows:
            yield StoredEntry(source, row)

    def _reader(self) -> sqlite3.Connection:
        db: sqlite3.Connection | None = getattr(self._local, "db", None)
        if db is None:
            db = self._connect()
            db.execute("PRAGMA query_only = ON")
            self._local.db = db
            self._reading.append(db)
        return db

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self.path, isolation_level=None, check_same_thread=False, timeout=_BUSY_SECONDS
        )

    def _open(self) -> sqlite3.Connection:
        db = self._connect()
        # Set before anything is written: only a new file accepts it.
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute("PRAGMA journal_mode = WAL")
        # Entries lost in a power failure are read again from the output files: their offsets are lost too.
        db.execute("PRAGMA synchronous = NORMAL")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            db.executescript(f"BEGIN; {_SCHEMA} {BLOCKS} PRAGMA user_version = {VERSION}; COMMIT;")
        elif version == _WITHOUT_BLOCKS:
            db.executescript(f"BEGIN; {BLOCKS} PRAGMA user_version = {VERSION}; COMMIT;")
        elif version != VERSION:
            raise DatabaseError(
                f"{self.path} was written by another version of vxtui (layout {version}, this one reads "
                f"{VERSION}); use that version, or choose another state directory"
            )
        self._db = db
        self._load_sources()
        self.blocks.load(db)
        return db

    def _load_sources(self) -> None:
        newest = max(self._sources, default=0)
        rows = self._db.execute(
            "SELECT id, project, log_name, resource_type, resource_labels FROM sources WHERE id > ?",
            (newest,),
        )
        for number, project, log_name, kind, labels in rows:
            source = LogSource(number, project, log_name, kind, json.loads(labels))
            self._sources[number] = self._known[project, log_name, kind, labels] = source
