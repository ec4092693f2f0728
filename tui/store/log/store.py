"""The log of one job: any number of lines in the order of their keys, on disk, each once.

Lines are numbered from the first one ever kept: line `n` stays `n` while lines are appended after it or
dropped before it; a late line that is put in place moves those behind it by one.

The log is a list of blocks in order. What comes is written at once, as it comes, so that SIGKILL loses
nothing that was taken; blocks that are small or that late lines fell into are also held in memory, and
written anew in order, together, when there are many of them (`_settle`). Of all other blocks only the first
and the last key are in memory; the few read last are remembered.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from pathlib import Path
from weakref import WeakSet

from tui.domain.log_entry import LogEntry, LogGap
from tui.store.log.block import Block
from tui.store.log.block_file import Note
from tui.store.log.disk import Disk, Dropped, Place
from tui.store.log.filters import LineFilter
from tui.store.log.lines import EPOCH, Key, Line, Lines, join, line_key, merge
from tui.store.log.view import View

MOST_BYTES = 512 * 1024 * 1024
"""Bytes of one job's log on disk before its oldest lines have to go."""
PIECE = 1000
"""Lines of a block: what is read to show any one of them."""
TEXT_A_LINE = 256
"""Characters of a line on average above which a block has fewer lines."""
HELD_WITHOUT_DISK = 50_000
HELD = 4000
"""Lines in memory that are not yet written in order."""
HELD_BLOCKS = 100
REMEMBERED = 16


@dataclass(frozen=True, slots=True)
class Appended:
    """What one batch did: lines from number `start` on differ, `added` are new, `dropped` left the front."""

    start: int
    added: int = 0
    dropped: int = 0

    def __bool__(self) -> bool:
        return bool(self.added or self.dropped)


class LogStore:
    """See the module. Not for use from several threads; `folder` belongs to one process at a time.

    Without a folder the log lives in a file of its own that ends with the process, as it also does where
    the folder is in use. Where the disk takes nothing more, `problem` says why, and only the newest lines
    are kept, in memory.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        most_bytes: int = MOST_BYTES,
        piece: int = PIECE,
        opened: bool = True,
    ) -> None:
        self.problem = ""
        self.dropped = 0
        """Lines that are not kept any more, because newer ones took their place."""
        self.revision = 0
        """Another one when a number may mean another line than before: one came late."""
        self._most = most_bytes
        self._piece = piece
        self._folder = folder
        self._disk = Disk(None, self._file_bytes)
        self._blocks: list[Block] = []
        self._starts: list[int] = []
        self._end = 0
        self._floor: Key | None = None
        self._read: OrderedDict[Place, Lines] = OrderedDict()
        self._views: WeakSet[View] = WeakSet()
        self._held_lines = self._held_blocks = 0
        if opened:
            self.open()

    def open(self) -> None:
        """Read what an earlier process left in the folder (blocking; with `opened=False`, call it once)."""
        if self._folder is not None and self._disk.folder is None:
            self._disk = Disk(self._folder, self._file_bytes)
            self._recover()

    @property
    def _file_bytes(self) -> int:
        return max(64 * 1024, self._most // 32)

    # Reading

    def __len__(self) -> int:
        return self._end - self.first

    @property
    def first(self) -> int:
        """Number of the first line that is kept."""
        return self._starts[0] if self._starts else self._end

    @property
    def end(self) -> int:
        """The number after the last line."""
        return self._end

    @property
    def newest(self) -> datetime | None:
        """Time of the last line."""
        return EPOCH + timedelta(microseconds=self._blocks[-1].last[0] // 1000) if self._blocks else None

    @property
    def oldest(self) -> datetime | None:
        """Time of the first line that is kept."""
        return EPOCH + timedelta(microseconds=self._blocks[0].first[0] // 1000) if self._blocks else None

    @property
    def full(self) -> bool:
        """Older lines would be dropped at once."""
        return bool(self.dropped) or self._disk.size > self._most * 0.9

    def lines(self, block: Block) -> Lines:
        """The columns of a block."""
        if block.lines is not None:
            return block.lines
        assert block.place is not None
        found = self._read.get(block.place)
        if found is None:
            found = self._disk.read(block.place, block.count)
            self._remember(block.place, found)
        else:
            self._read.move_to_end(block.place)
        return found

    def _remember(self, place: Place, lines: Lines) -> None:
        self._read[place] = lines
        if len(self._read) > REMEMBERED:
            self._read.popitem(last=False)

    def _at(self, number: int) -> int:
        """Index of the block that holds line `number`."""
        return bisect_right(self._starts, number) - 1

    def __getitem__(self, number: int) -> Line:
        """The line of that number. Raises IndexError for one that is not kept."""
        if not self.first <= number < self._end:
            raise IndexError(f"line {number} is not kept; there are {self.first} to {self._end - 1}")
        at = self._at(number)
        return self.lines(self._blocks[at]).line(number - self._starts[at])

    def blocks(self, start: int, stop: int) -> Iterator[tuple[int, Block]]:
        """(number of the first line, block) of every block with a line from `start` up to before `stop`."""
        at = max(0, self._at(start))
        while at < len(self._blocks) and self._starts[at] < stop:
            yield self._starts[at], self._blocks[at]
            at += 1

    def columns(self, start: int, stop: int) -> Iterator[tuple[int, Lines]]:
        """(number of the first line, columns) of each block with lines from `start` up to before `stop`."""
        for number, block in self.blocks(start, stop):
            yield number, self.lines(block)

    def view(self, filter: LineFilter | None = None) -> View:
        """A view that stays true as lines come; let go of it to end it."""
        made = View(self, filter or LineFilter())
        self._views.add(made)
        return made

    def slice(self, start: int, stop: int) -> list[Line]:
        """Lines from number `start` up to before `stop`, as far as they are kept."""
        found: list[Line] = []
        for number, block in self.blocks(max(start, self.first), stop):
            lines = self.lines(block)
            found += [lines.line(at) for at in range(max(0, start - number), min(block.count, stop - number))]
        return found

    def find(self, line: Line) -> int:
        """The number that this line has, or would have."""
        return self.find_key(line_key(line))

    def find_key(self, key: Key) -> int:
        """The number of the first line whose key is not before this one."""
        at = bisect_left(self._blocks, key, key=lambda block: block.last)
        if at == len(self._blocks):
            return self._end
        block = self._blocks[at]
        return self._starts[at] + (0 if key <= block.first else _place_of(self.lines(block), key))

    # Writing

    def append(self, entries: Sequence[LogEntry], gaps: Sequence[LogGap] = ()) -> Appended:
        """Take lines over in whatever order they come; those already here are left out."""
        return self.add(Lines.of(entries, gaps))

    def add(self, lines: Lines) -> Appended:
        """As `append`, by columns."""
        if not lines.ordered:
            lines = merge([lines])
        if self._floor is not None and len(lines) and lines.key(0) <= self._floor:
            # What is older than all that was dropped would be dropped at once.
            late = _place_of(lines, self._floor)
            late += late < len(lines) and lines.key(late) == self._floor
            lines = lines.cut(late, len(lines))
        if not len(lines):
            return Appended(self._end)
        start, added = self._end, len(lines)
        new = 0
        if self._blocks and lines.key(0) <= self._blocks[-1].last:
            new = _place_of(lines, self._blocks[-1].last)
            new += new < len(lines) and lines.key(new) == self._blocks[-1].last
            start, added = self._put_in(lines.cut(0, new))
            added += len(lines) - new
        if new < len(lines):
            self._put_at_end(lines.cut(new, len(lines)))
        if not added:
            return Appended(self._end)
        if start < self._end - added:
            self.revision += 1
        for view in self._views:
            view.forget_from(start)
        if self._held_lines > HELD or self._held_blocks > HELD_BLOCKS:
            self._settle()
        return Appended(start, added, self._drop())

    def _put_at_end(self, lines: Lines) -> None:
        for block in self._new_blocks(lines):
            if block.lines is not None:
                self._hold(block)
            self._starts.append(self._end)
            self._blocks.append(block)
            self._end += block.count

    def _new_blocks(self, lines: Lines) -> list[Block]:
        """Write lines that follow each other; the blocks they are in, small ones held."""
        pieces = list(_pieces(lines, self._piece))
        made = []
        for piece, place in zip(pieces, self._write(pieces), strict=True):
            # A piece of some size stays as it is; small ones are put together later.
            settled = place is not None and len(piece) * 4 >= self._piece
            if settled and place is not None:
                self._remember(place, piece)
            made.append(Block(piece, (place,) if place is not None else (), settled=settled))
        return made

    def _hold(self, block: Block) -> None:
        self._held_blocks += 1
        self._held_lines += block.count

    def _put_in(self, lines: Lines) -> tuple[int, int]:
        """Put lines where they belong among those that are here: (first number that differs, new lines)."""
        start, added, at = self._end, 0, 0
        fresh: list[tuple[int, Lines]] = []
        while at < len(lines):
            index = bisect_left(self._blocks, lines.key(at), key=lambda block: block.last)
            stop = _place_of(lines, self._blocks[index].last, at)
            stop += stop < len(lines) and lines.key(stop) == self._blocks[index].last
            fresh.append((index, lines.cut(at, stop)))
            at = stop
        # From the end on, so that the places of those before stay what they are.
        for index, part in reversed(fresh):
            begin, count = self._merge_into(index, part)
            if count:
                start, added = min(start, begin), added + count
        return start, added

    def _merge_into(self, index: int, part: Lines) -> tuple[int, int]:
        block = self._blocks[index]
        here = self.lines(block)
        if part.key(len(part) - 1) < block.first:
            # All of it stands before the block: it needs no rewriting, e.g. for a page of older lines.
            begin = self._starts[index]
            self._replace(index, index, self._new_blocks(part))
            return begin, len(part)
        known = set(here.keys())
        new = part.pick([at for at, key in enumerate(part.keys()) if key not in known])
        if not len(new):
            return self._end, 0
        begin = self._starts[index] + _place_of(here, new.key(0))
        # Written as they came, so that they are safe; in their place once the block is settled.
        written = tuple(place for place in self._write([new]) if place)
        sources = block.sources + written
        pieces = list(_pieces(merge([here, new]), self._piece))
        # Which of the pieces a source's lines are in does not matter: all held blocks settle together.
        made = [Block(piece, sources if at == 0 else (), settled=False) for at, piece in enumerate(pieces)]
        self._replace(index, index + 1, made)
        return begin, len(new)

    def _replace(self, start: int, stop: int, made: Sequence[Block]) -> None:
        """Put blocks in the place of those from index `start` up to before `stop`."""
        for block in self._blocks[start:stop]:
            if block.lines is not None:
                self._held_blocks -= 1
                self._held_lines -= block.count
        for block in made:
            if block.lines is not None:
                self._hold(block)
        begin = self._starts[start] if start < len(self._starts) else self._end
        self._blocks[start:stop] = made
        counts = [block.count for block in self._blocks[start:]]
        ends = list(accumulate(counts, initial=begin))
        self._starts[start:], self._end = ends[:-1], ends[-1]

    def _write(self, pieces: Sequence[Lines]) -> list[Place | None]:
        """Write each as a block of its own; where they are, `None` where the disk takes nothing."""
        if self.problem:
            return [None] * len(pieces)
        try:
            return [*self._disk.write(pieces)]
        except OSError as error:
            self._stop_writing(error)
            return [None] * len(pieces)

    def _settle(self) -> None:
        """Write all that is held in memory anew, in order, and let go of it."""
        if self.problem:
            return
        runs = list(_held_runs(self._blocks))
        made = [
            list(_pieces(join([b.lines for b in run if b.lines is not None]), self._piece)) for _, run in runs
        ]
        sources = [place for _, run in runs for block in run for place in block.sources]
        try:
            places = iter(self._disk.write([piece for pieces in made for piece in pieces], sources))
        except OSError as error:
            self._stop_writing(error)
            return
        blocks: list[list[Block]] = []
        for pieces in made:
            blocks.append([])
            for piece in pieces:
                place = next(places)
                self._remember(place, piece)
                blocks[-1].append(Block(piece, (place,), settled=True))
        for (at, run), settled in zip(reversed(runs), reversed(blocks), strict=True):
            self._replace(at, at + len(run), settled)

    def _stop_writing(self, error: OSError) -> None:
        self.problem = error.strerror or str(error)

    def _drop(self) -> int:
        """Let the oldest blocks go while there is more than may be kept; the lines that went."""
        gone, last = 0, None
        while len(self._blocks) > gone + 1 and self._over():
            block = self._blocks[gone]
            gone, last = gone + 1, block.last
            if block.lines is not None:
                self._held_blocks -= 1
                self._held_lines -= block.count
            self._disk.release(block.sources)
        if last is None:
            return 0
        before = self.first
        del self._blocks[:gone], self._starts[:gone]
        self.dropped += self.first - before
        self._floor = last
        self._disk.tell_dropped(Dropped(self.dropped, last))
        return self.first - before

    def _over(self) -> bool:
        if self.problem:
            return self._held_lines > HELD_WITHOUT_DISK
        return self._disk.size > self._most

    def close(self) -> None:
        """Write what is held in order and let go of the files; nothing may be read after it."""
        if self._held_blocks:
            self._settle()
        self._disk.close()

    # What an earlier process left

    def _recover(self) -> None:
        dropped = self._disk.dropped()
        if dropped is not None:
            self.dropped, self._floor = dropped.count, dropped.floor
            self._end = dropped.count
        found = sorted(self._disk.find(), key=lambda each: each[0].first)
        clusters: list[list[tuple[Note, Place]]] = []
        last: Key | None = None
        for note, place in found:
            if self._floor is not None and note.last <= self._floor:
                self._disk.release([place])
                continue
            if last is not None and note.first <= last:
                clusters[-1].append((note, place))
                last = max(last, note.last)
            else:
                clusters.append([(note, place)])
                last = note.last
        blocks: list[Block] = []
        for cluster in clusters:
            blocks += self._restored(cluster)
        self._replace(0, 0, blocks)
        self.revision += 1

    def _restored(self, cluster: Sequence[tuple[Note, Place]]) -> list[Block]:
        """The blocks of notes that overlap each other."""
        if len(cluster) == 1:
            note, place = cluster[0]
            return [Block.stored(note, place)]
        lines = merge([self._disk.read(place, note.count) for note, place in cluster])
        places = tuple(place for _, place in cluster)
        return [
            Block(piece, places if at == 0 else (), settled=False)
            for at, piece in enumerate(_pieces(lines, self._piece))
        ]


def _place_of(lines: Lines, key: Key, low: int = 0) -> int:
    """Index of the first line whose key is not before this one."""
    return bisect_left(range(len(lines)), key, lo=low, key=lines.key)


def _pieces(lines: Lines, most: int) -> Iterator[Lines]:
    """The lines in pieces of about the same number, each of about `most` lines and of a bounded text."""
    count = len(lines)
    # Not rounded up: batches of a few more than `most` would make twice as many blocks as there have to be.
    parts = max(min(1, count), round(count / most), min(count, _text_size(lines) // (most * TEXT_A_LINE)))
    for part in range(parts):
        yield lines.cut(part * count // parts, (part + 1) * count // parts)


def _text_size(lines: Lines) -> int:
    """About how many characters of text there are: every 16th line is looked at."""
    some = lines.texts[::16]
    return sum(map(len, some)) * len(lines) // max(1, len(some))


def _held_runs(blocks: Sequence[Block]) -> Iterator[tuple[int, list[Block]]]:
    """(index of the first, blocks) of each run of blocks that are held in memory."""
    run: list[Block] = []
    for at, block in enumerate(blocks):
        if block.lines is not None:
            run.append(block)
        elif run:
            yield at - len(run), run
            run = []
    if run:
        yield len(blocks) - len(run), run
