"""Compressed blocks of log entries, which take a tenth of the space of rows.

A block holds consecutive entries of one source. Blocks of a source do not overlap, and no two of them share a
timestamp. The bounds that a list needs (times, severity, receive times) are stored beside the data, so a list
decodes only blocks that can match. Numbers are in the machine's byte order, because the file stays on it.
"""

from __future__ import annotations

import sqlite3
import struct
import threading
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import zstandard

from tui.emulator.logging.record import MESSAGE, EntryRow

BLOCK = 500
"""Entries per block; the last block may be smaller."""
BLOCK_BYTES = 1 << 20
"""Payload in bytes after which a block ends."""
SCHEMA = """
CREATE TABLE blocks (
    id INTEGER PRIMARY KEY AUTOINCREMENT, source INTEGER NOT NULL, first INTEGER NOT NULL,
    last INTEGER NOT NULL, entries INTEGER NOT NULL, severity INTEGER NOT NULL, received INTEGER NOT NULL,
    received_last INTEGER NOT NULL, data BLOB NOT NULL
);
CREATE UNIQUE INDEX blocks_in_order ON blocks (source, first);
"""
_LEVEL = 3
_CACHED = 96
"""Number of decoded blocks in memory. Few jobs have more replicas, each of which needs a block in a list."""
_MAX_DECODED = 1 << 28
_SIZES = struct.Struct("<I6Q")
"""Number of entries, then the bytes of each column."""


class DamagedBlock(sqlite3.DatabaseError):
    """The data of a block can't be decoded."""


class BlockHead(NamedTuple):
    """A block without its entries. Times are in ns."""

    id: int
    first: int
    last: int
    entries: int
    severity: int
    """Highest severity of the block's entries."""
    received: int
    received_last: int


def encode(rows: Sequence[EntryRow]) -> bytes:
    """Encode the entries of one source as compressed columns."""
    texts = [row[5] if isinstance(row[5], bytes) else row[5].encode() for row in rows]
    columns = (
        _deltas(row[1] for row in rows),
        _deltas(row[6] for row in rows),
        array("i", (row[3] for row in rows)).tobytes(),
        bytes(row[4] for row in rows),
        _joined([row[2].encode() for row in rows]),
        _joined(texts),
    )
    data = b"".join((_SIZES.pack(len(rows), *map(len, columns)), *columns))
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(data)


def decode(source: int, data: bytes) -> list[EntryRow]:
    """Decode the entries of a block, in order. Raises DamagedBlock."""
    try:
        if zstandard.frame_content_size(data) > _MAX_DECODED:
            raise DamagedBlock("a block of the log is damaged: it claims to be huge")
        whole = zstandard.ZstdDecompressor().decompress(data)
        count, *sizes = _SIZES.unpack_from(whole)
        ends = list(accumulate(sizes, initial=_SIZES.size))
        times, received, severities, kinds, ids, texts = (whole[a:b] for a, b in pairwise(ends))
        return [
            (source, at, name.decode(), severity, kind, text if kind == MESSAGE else text.decode(), received)
            for at, name, severity, kind, text, received in zip(
                accumulate(array("q", times)),
                _split(ids, count),
                array("i", severities),
                kinds,
                _split(texts, count),
                accumulate(array("q", received)),
                strict=True,
            )
        ]
    except (struct.error, ValueError, zstandard.ZstdError) as error:
        raise DamagedBlock(f"a block of the log is damaged: {error}") from error


def damaged_blocks(db: sqlite3.Connection) -> list[int]:
    """Return the ids of blocks whose data can't be decoded. All blocks are read."""
    damaged = []
    for number, source, data in db.execute("SELECT id, source, data FROM blocks"):
        try:
            decode(source, data)
        except DamagedBlock:
            damaged.append(number)
    return damaged


def _deltas(numbers: Iterable[int]) -> bytes:
    counts = list(numbers)
    return array("q", (b - a for a, b in pairwise((0, *counts)))).tobytes()


def _joined(texts: Sequence[bytes]) -> bytes:
    return array("I", map(len, texts)).tobytes() + b"".join(texts)


def _split(data: bytes, count: int) -> Iterator[bytes]:
    lengths = array("I", data[: 4 * count])
    return (data[a:b] for a, b in pairwise(accumulate(lengths, initial=4 * count)))


def cut(rows: Sequence[EntryRow]) -> list[Sequence[EntryRow]]:
    """Cut ordered entries into blocks of about equal size; entries with the same timestamp stay together."""
    size = -(-len(rows) // max(1, -(-len(rows) // BLOCK)))
    parts, begin, held = [], 0, 0
    for at, row in enumerate(rows):
        full = at - begin >= size or held >= BLOCK_BYTES
        if full and row[1] != rows[at - 1][1]:
            parts.append(rows[begin:at])
            begin, held = at, 0
        held += len(row[5])
    return [*parts, rows[begin:]]


class BlockTable:
    """The table `blocks`. Its methods take the connection of the thread that calls them."""

    def __init__(self) -> None:
        self.newest: dict[int, int] = {}
        """Last timestamp in the blocks of each source, or a later timestamp (writer's thread)."""
        self._decoded: OrderedDict[int, list[EntryRow]] = OrderedDict()
        self._lock = threading.Lock()

    def load(self, db: sqlite3.Connection) -> None:
        """Load the set of sources that have blocks."""
        self.newest = dict(db.execute("SELECT source, max(last) FROM blocks GROUP BY source"))

    def between(
        self, db: sqlite3.Connection, source: int, first: int, last: int, *, newest_first: bool = False
    ) -> Iterator[BlockHead]:
        """Return the blocks of a source with timestamps within these bounds."""
        # A block that begins earlier may end within the bounds.
        before = db.execute(
            "SELECT max(first) FROM blocks WHERE source=? AND first<=?", (source, first)
        ).fetchone()[0]
        rows = db.execute(
            f"SELECT {', '.join(BlockHead._fields)} FROM blocks WHERE source=? AND first BETWEEN ? AND ?"
            f" ORDER BY first {'DESC' if newest_first else ''}",
            (source, first if before is None else before, last),
        )
        return (head for head in map(BlockHead._make, rows) if head.last >= first)

    def rows(self, db: sqlite3.Connection, source: int, number: int) -> list[EntryRow]:
        """Return the entries of a block. Raises DamagedBlock."""
        with self._lock:
            if number in self._decoded:
                self._decoded.move_to_end(number)
                return self._decoded[number]
        data = db.execute("SELECT data FROM blocks WHERE id=?", (number,)).fetchone()[0]
        rows = decode(source, data)
        with self._lock:
            self._decoded[number] = rows
            while len(self._decoded) > _CACHED:
                self._decoded.popitem(last=False)
        return rows

    # -- in the writer's thread

    def has(self, db: sqlite3.Connection, row: EntryRow) -> bool:
        """Return whether an entry with this source, timestamp and insert_id is in a block."""
        source, timestamp, name = row[:3]
        if timestamp > self.newest.get(source, -1):
            return False
        return any(
            (other[1], other[2]) == (timestamp, name)
            for head in self.between(db, source, timestamp, timestamp)
            for other in self.rows(db, source, head.id)
        )

    def add(self, db: sqlite3.Connection, source: int, rows: Sequence[EntryRow]) -> None:
        """Store ordered entries of a source, between its other blocks."""
        for part in cut(rows):
            received = [row[6] for row in part]
            lines = part[0][1], part[-1][1], len(part)
            db.execute(
                "INSERT INTO blocks (source, first, last, entries, severity, received, received_last, data)"
                " VALUES (?,?,?,?,?,?,?,?)",
                (source, *lines, max(row[3] for row in part), min(received), max(received), encode(part)),
            )
        self.newest[source] = max(self.newest.get(source, 0), rows[-1][1])

    def remove(self, db: sqlite3.Connection, heads: Sequence[BlockHead]) -> int:
        """Delete blocks; return the number of their entries."""
        db.executemany("DELETE FROM blocks WHERE id=?", [(head.id,) for head in heads])
        return sum(head.entries for head in heads)
