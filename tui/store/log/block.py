"""What is held in memory of one block of a log, its lines read or not."""

from __future__ import annotations

import struct
import sys
from functools import lru_cache

from tui.store.log.block_file import ENCODING, Note
from tui.store.log.disk import Place
from tui.store.log.lines import Key, Lines

Counts = tuple[int, int, int, int]
_ENDS = struct.Struct("<qqI")
"""Times of the first and the last line, bytes of the first one's insert_id; both insert_ids follow."""


class Block:
    """Some lines that follow each other: where they are, and their columns where they are held.

    There is one for each thousand lines ever kept, so its keys are held packed: as tuples they were half of
    what a long log took in memory.
    """

    __slots__ = ("_from", "_held", "_keys", "_to", "count", "counts", "lines", "place")

    def __init__(self, lines: Lines, sources: tuple[Place, ...], *, settled: bool) -> None:
        self._keep(lines.key(0), lines.key(len(lines) - 1))
        self.count, self.counts = len(lines), _same(lines.counts())
        self.lines: Lines | None = None if settled else lines
        self.place = sources[0] if settled else None
        self._held = () if settled else sources

    @classmethod
    def stored(cls, note: Note, place: Place) -> Block:
        """A block of which only the note has been read."""
        made = cls.__new__(cls)
        made._keep(note.first, note.last)
        made.count, made.counts = note.count, _same(note.counts)
        made.lines, made.place, made._held = None, place, ()
        return made

    def _keep(self, first: Key, last: Key) -> None:
        # Replicas are few, their names are held once.
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
    def sources(self) -> tuple[Place, ...]:
        """Where its lines have been written."""
        return self._held if self.place is None else (self.place,)


@lru_cache(maxsize=4096)
def _same(counts: Counts) -> Counts:
    """One object for all that are equal: most blocks have the same."""
    return counts
