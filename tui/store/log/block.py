"""One block of a log in memory, with or without its lines."""

from __future__ import annotations

import struct
import sys
from functools import lru_cache

from tui.store.log.block_file import ENCODING, BlockHeader
from tui.store.log.disk import BlockLocation
from tui.store.log.lines import Key, Lines

Counts = tuple[int, int, int, int]
_ENDS = struct.Struct("<qqI")
"""Times of the first and the last line, and the number of bytes of the first line's insert_id. Both
insert_ids follow the header."""


class LogBlock:
    """Consecutive lines: their location on disk, and their columns while they are in memory. A log has one
    block per thousand lines, so the keys of a block are packed. As tuples the keys would take half of the
    memory of a long log."""

    __slots__ = ("_from", "_keys", "_sources", "_to", "count", "counts", "lines", "location")

    def __init__(self, lines: Lines, sources: tuple[BlockLocation, ...], *, compacted: bool) -> None:
        self._keep(lines.key(0), lines.key(len(lines) - 1))
        self.count, self.counts = len(lines), _same(lines.counts())
        self.lines: Lines | None = None if compacted else lines
        self.location = sources[0] if compacted else None
        self._sources = () if compacted else sources

    @classmethod
    def stored(cls, header: BlockHeader, location: BlockLocation) -> LogBlock:
        """Create a block of which only the header has been read."""
        block = cls.__new__(cls)
        block._keep(header.first, header.last)
        block.count, block.counts = header.count, _same(header.counts)
        block.lines, block.location, block._sources = None, location, ()
        return block

    def _keep(self, first: Key, last: Key) -> None:
        # Intern the names of replicas, because few replicas exist.
        self._from, self._to = sys.intern(first[2]), sys.intern(last[2])
        texts = [text.encode(*ENCODING) for text in (first[1], last[1])]
        self._keys = _ENDS.pack(first[0], last[0], len(texts[0])) + b"".join(texts)

    @property
    def first(self) -> Key:
        """Key of the first line."""
        begin, _, size = _ENDS.unpack_from(self._keys)
        return begin, self._keys[_ENDS.size : _ENDS.size + size].decode(*ENCODING), self._from

    @property
    def last(self) -> Key:
        """Key of the last line."""
        _, end, size = _ENDS.unpack_from(self._keys)
        return end, self._keys[_ENDS.size + size :].decode(*ENCODING), self._to

    @property
    def sources(self) -> tuple[BlockLocation, ...]:
        """Location of the block's lines."""
        return self._sources if self.location is None else (self.location,)


@lru_cache(maxsize=4096)
def _same(counts: Counts) -> Counts:
    """Return a shared object for equal counts, because most blocks have equal counts."""
    return counts
