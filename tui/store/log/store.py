"""The log of one job on disk: any number of lines, ordered by key, each once.

Lines are numbered from the first line ever stored: line `n` stays `n` while lines are appended after it or
dropped before it; an inserted late line shifts the lines after it by one.

The log is an ordered list of blocks. Each batch is written at once, so that SIGKILL loses no accepted line.
Blocks that are small, or into which late lines were inserted, are pending: they also stay in memory until
`_compact` rewrites them in order. Memory holds only the first and the last key of all other blocks; the most
recently read blocks are cached.
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

from tui.domain.core.log_entry import LogEntry, LogGap
from tui.store.log.block import LogBlock
from tui.store.log.block_file import BlockHeader
from tui.store.log.disk import BlockLocation, Disk, Dropped
from tui.store.log.filters import LineFilter
from tui.store.log.lines import EPOCH, Key, Line, Lines, join, line_key, merge
from tui.store.log.read_position import ReadPosition
from tui.store.log.view import View

MEGABYTE = 1024 * 1024
MAX_BYTES = 512 * MEGABYTE
"""Bytes of one job's log on disk above which its oldest lines are dropped."""
BLOCK_LINES = 1000
"""Number of lines of a block, the unit of reading."""
MEAN_LINE_CHARACTERS = 256
"""Mean line length in characters above which a block has fewer lines."""
MAX_LINES_WITHOUT_DISK = 50_000
MAX_PENDING_LINES = 4000
"""Maximum number of lines in blocks that wait for compaction."""
MAX_PENDING_BLOCKS = 100
CACHED_BLOCKS = 16


@dataclass(frozen=True, slots=True)
class Appended:
    """The change by one batch: lines from number `start` on differ, `added` lines are new, and `dropped`
    lines are gone."""

    start: int
    added: int = 0
    dropped: int = 0

    def __bool__(self) -> bool:
        return bool(self.added or self.dropped)


class LogStore:
    """The log of one job. The store is not thread-safe; one process at a time holds `folder`.

    Without a folder, or if another process holds it, the log is a temporary file. If the disk fails,
    `problem` states the reason, and only the newest lines are stored, in memory.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        max_bytes: int = MAX_BYTES,
        block_lines: int = BLOCK_LINES,
        opened: bool = True,
    ) -> None:
        self.problem = ""
        self.dropped = 0
        """Number of lines dropped to make room for newer lines."""
        self.revision = 0
        """A counter that changes when a late line was inserted, so that numbers may denote other lines."""
        self.position = ReadPosition()
        """Read position of the log, from the last `keep_position` or an earlier process."""
        self._max_bytes = max_bytes
        self._piece = block_lines
        self._folder = folder
        self._disk = Disk(None, self._file_bytes)
        self._blocks: list[LogBlock] = []
        self._starts: list[int] = []
        self._end = 0
        self._floor: Key | None = None
        self._cached: OrderedDict[BlockLocation, Lines] = OrderedDict()
        self._views: WeakSet[View] = WeakSet()
        self._pending_lines = self._pending_blocks = 0
        if opened:
            self.open()

    def open(self) -> None:
        """Recover an earlier process's log from the folder (blocking), once, after `opened=False`."""
        if self._folder is not None and self._disk.folder is None:
            self._disk = Disk(self._folder, self._file_bytes)
            self._recover()
            if self._blocks:
                self.position = self._disk.position()

    @property
    def _file_bytes(self) -> int:
        return max(64 * 1024, self._max_bytes // 32)

    # Reading

    def __len__(self) -> int:
        return self._end - self.first

    @property
    def first(self) -> int:
        """Number of the first stored line."""
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
        """Time of the first stored line."""
        return EPOCH + timedelta(microseconds=self._blocks[0].first[0] // 1000) if self._blocks else None

    @property
    def full(self) -> bool:
        """Whether older lines would be dropped immediately."""
        return bool(self.dropped) or self._disk.size > self._max_bytes * 0.9

    def lines(self, block: LogBlock) -> Lines:
        """Return the columns of a block."""
        if block.lines is not None:
            return block.lines
        assert block.location is not None
        lines = self._cached.get(block.location)
        if lines is None:
            lines = self._disk.read(block.location, block.count)
            self._cache(block.location, lines)
        else:
            self._cached.move_to_end(block.location)
        return lines

    def _cache(self, location: BlockLocation, lines: Lines) -> None:
        self._cached[location] = lines
        if len(self._cached) > CACHED_BLOCKS:
            self._cached.popitem(last=False)

    def _at(self, number: int) -> int:
        """Return the index of the block that holds line `number`."""
        return bisect_right(self._starts, number) - 1

    def __getitem__(self, number: int) -> Line:
        """Return the line of that number. Raises IndexError if it is not stored."""
        if not self.first <= number < self._end:
            raise IndexError(f"line {number} is not stored; stored lines: {self.first} to {self._end - 1}")
        at = self._at(number)
        return self.lines(self._blocks[at]).line(number - self._starts[at])

    def blocks(self, start: int, stop: int) -> Iterator[tuple[int, LogBlock]]:
        """Yield (number of the first line, block) of the blocks with lines from `start` to before `stop`."""
        at = max(0, self._at(start))
        while at < len(self._blocks) and self._starts[at] < stop:
            yield self._starts[at], self._blocks[at]
            at += 1

    def columns(self, start: int, stop: int) -> Iterator[tuple[int, Lines]]:
        """Yield (first line's number, columns) of each block with lines from `start` to before `stop`."""
        for number, block in self.blocks(start, stop):
            yield number, self.lines(block)

    def view(self, filter: LineFilter | None = None) -> View:
        """Return a view that follows new lines while the view is referenced."""
        view = View(self, filter or LineFilter())
        self._views.add(view)
        return view

    def find(self, line: Line) -> int:
        """Return the number that this line has, or would get."""
        return self.find_key(line_key(line))

    def find_key(self, key: Key) -> int:
        """Return the number of the first line whose key is not before this key."""
        at = bisect_left(self._blocks, key, key=lambda block: block.last)
        if at == len(self._blocks):
            return self._end
        block = self._blocks[at]
        return self._starts[at] + (0 if key <= block.first else _index_of(self.lines(block), key))

    # Writing

    def append(self, entries: Sequence[LogEntry], gaps: Sequence[LogGap] = ()) -> Appended:
        """Add lines in any order. Known lines are skipped."""
        return self.add(Lines.of(entries, gaps))

    def add(self, lines: Lines) -> Appended:
        """Add lines that are already in columns; see `append`."""
        if not lines.ordered:
            lines = merge([lines])
        if self._floor is not None and len(lines) and lines.key(0) <= self._floor:
            # Lines older than the last dropped line would be dropped immediately.
            late = _index_of(lines, self._floor)
            late += late < len(lines) and lines.key(late) == self._floor
            lines = lines.cut(late, len(lines))
        if not len(lines):
            return Appended(self._end)
        start, added = self._end, len(lines)
        new = 0
        if self._blocks and lines.key(0) <= self._blocks[-1].last:
            new = _index_of(lines, self._blocks[-1].last)
            new += new < len(lines) and lines.key(new) == self._blocks[-1].last
            start, added = self._insert(lines.cut(0, new))
            added += len(lines) - new
        if new < len(lines):
            self._append_blocks(lines.cut(new, len(lines)))
        if not added:
            return Appended(self._end)
        if start < self._end - added:
            self.revision += 1
        for view in self._views:
            view.rescan_from(start)
        if self._pending_lines > MAX_PENDING_LINES or self._pending_blocks > MAX_PENDING_BLOCKS:
            self._compact()
        return Appended(start, added, self._drop())

    def _append_blocks(self, lines: Lines) -> None:
        for block in self._new_blocks(lines):
            if block.lines is not None:
                self._add_pending(block)
            self._starts.append(self._end)
            self._blocks.append(block)
            self._end += block.count

    def _new_blocks(self, lines: Lines) -> list[LogBlock]:
        """Write consecutive lines. Return their blocks; small blocks are pending."""
        slices = list(_split(lines, self._piece))
        blocks = []
        for block_lines, location in zip(slices, self._write(slices), strict=True):
            # A block of at least a quarter of the full size stays; smaller blocks are compacted later.
            compacted = location is not None and len(block_lines) * 4 >= self._piece
            if compacted and location is not None:
                self._cache(location, block_lines)
            blocks.append(
                LogBlock(block_lines, (location,) if location is not None else (), compacted=compacted)
            )
        return blocks

    def _add_pending(self, block: LogBlock) -> None:
        self._pending_blocks += 1
        self._pending_lines += block.count

    def _insert(self, lines: Lines) -> tuple[int, int]:
        """Insert lines among the known lines. Return the first changed number, and the count of new lines."""
        start, added, at = self._end, 0, 0
        fresh: list[tuple[int, Lines]] = []
        while at < len(lines):
            index = bisect_left(self._blocks, lines.key(at), key=lambda block: block.last)
            stop = _index_of(lines, self._blocks[index].last, at)
            stop += stop < len(lines) and lines.key(stop) == self._blocks[index].last
            fresh.append((index, lines.cut(at, stop)))
            at = stop
        # Start from the end, so that earlier indexes stay valid.
        for index, part in reversed(fresh):
            begin, count = self._merge_into(index, part)
            if count:
                start, added = min(start, begin), added + count
        return start, added

    def _merge_into(self, index: int, part: Lines) -> tuple[int, int]:
        block = self._blocks[index]
        here = self.lines(block)
        if part.key(len(part) - 1) < block.first:
            # All lines precede the block, as in a page of older lines, so nothing is rewritten.
            begin = self._starts[index]
            self._replace(index, index, self._new_blocks(part))
            return begin, len(part)
        known = set(here.keys())
        new = part.pick([at for at, key in enumerate(part.keys()) if key not in known])
        if not len(new):
            return self._end, 0
        begin = self._starts[index] + _index_of(here, new.key(0))
        # Write the lines at once, so that they are safe. Compaction orders them.
        written = tuple(location for location in self._write([new]) if location)
        sources = block.sources + written
        slices = list(_split(merge([here, new]), self._piece))
        # Any block may name the sources, because all pending blocks are compacted together.
        blocks = [
            LogBlock(block_lines, sources if at == 0 else (), compacted=False)
            for at, block_lines in enumerate(slices)
        ]
        self._replace(index, index + 1, blocks)
        return begin, len(new)

    def _replace(self, start: int, stop: int, blocks: Sequence[LogBlock]) -> None:
        """Replace the blocks from index `start` up to before `stop`."""
        for block in self._blocks[start:stop]:
            if block.lines is not None:
                self._pending_blocks -= 1
                self._pending_lines -= block.count
        for block in blocks:
            if block.lines is not None:
                self._add_pending(block)
        begin = self._starts[start] if start < len(self._starts) else self._end
        self._blocks[start:stop] = blocks
        counts = [block.count for block in self._blocks[start:]]
        ends = list(accumulate(counts, initial=begin))
        self._starts[start:], self._end = ends[:-1], ends[-1]

    def _write(self, slices: Sequence[Lines]) -> list[BlockLocation | None]:
        """Write each slice as a block. Return the locations, each `None` if the disk fails."""
        if self.problem:
            return [None] * len(slices)
        try:
            return [*self._disk.write(slices)]
        except OSError as error:
            self._stop_writing(error)
            return [None] * len(slices)

    def _compact(self) -> None:
        """Rewrite all pending blocks in order and release their memory."""
        if self.problem:
            return
        runs = list(_pending_runs(self._blocks))
        rewritten = [
            list(_split(join([b.lines for b in run if b.lines is not None]), self._piece)) for _, run in runs
        ]
        sources = [location for _, run in runs for block in run for location in block.sources]
        try:
            locations = iter(
                self._disk.write([block_lines for slices in rewritten for block_lines in slices], sources)
            )
        except OSError as error:
            self._stop_writing(error)
            return
        blocks: list[list[LogBlock]] = []
        for slices in rewritten:
            blocks.append([])
            for block_lines in slices:
                location = next(locations)
                self._cache(location, block_lines)
                blocks[-1].append(LogBlock(block_lines, (location,), compacted=True))
        for (at, run), compacted in zip(reversed(runs), reversed(blocks), strict=True):
            self._replace(at, at + len(run), compacted)

    def _stop_writing(self, error: OSError) -> None:
        self.problem = error.strerror or str(error)

    def _drop(self) -> int:
        """Drop the oldest blocks while the log exceeds its limit. Return the number of dropped lines."""
        gone, last = 0, None
        while len(self._blocks) > gone + 1 and self._over_limit():
            block = self._blocks[gone]
            gone, last = gone + 1, block.last
            if block.lines is not None:
                self._pending_blocks -= 1
                self._pending_lines -= block.count
            self._disk.release(block.sources)
        if last is None:
            return 0
        before = self.first
        del self._blocks[:gone], self._starts[:gone]
        self.dropped += self.first - before
        self._floor = last
        self._disk.save_dropped(Dropped(self.dropped, last))
        return self.first - before

    def _over_limit(self) -> bool:
        if self.problem:
            return self._pending_lines > MAX_LINES_WITHOUT_DISK
        return self._disk.size > self._max_bytes

    def keep_position(self, position: ReadPosition) -> None:
        """Save the read position, after adding the lines up to that position."""
        if position != self.position:
            self.position = position
            self._disk.save_position(position)

    def close(self) -> None:
        """Write pending blocks in order and close the files. The log is unusable afterwards."""
        if self._pending_blocks:
            self._compact()
        self._disk.close()

    # Recovery

    def _recover(self) -> None:
        dropped = self._disk.dropped()
        if dropped is not None:
            self.dropped, self._floor = dropped.count, dropped.floor
            self._end = dropped.count
        stored = sorted(self._disk.find(), key=lambda block: block[0].first)
        clusters: list[list[tuple[BlockHeader, BlockLocation]]] = []
        last: Key | None = None
        for header, location in stored:
            if self._floor is not None and header.last <= self._floor:
                self._disk.release([location])
                continue
            if last is not None and header.first <= last:
                clusters[-1].append((header, location))
                last = max(last, header.last)
            else:
                clusters.append([(header, location)])
                last = header.last
        blocks: list[LogBlock] = []
        for cluster in clusters:
            blocks += self._recover_blocks(cluster)
        self._replace(0, 0, blocks)
        self.revision += 1

    def _recover_blocks(self, cluster: Sequence[tuple[BlockHeader, BlockLocation]]) -> list[LogBlock]:
        """Return the blocks of headers whose key ranges overlap."""
        if len(cluster) == 1:
            header, location = cluster[0]
            return [LogBlock.stored(header, location)]
        lines = merge([self._disk.read(location, header.count) for header, location in cluster])
        locations = tuple(location for _, location in cluster)
        return [
            LogBlock(block_lines, locations if at == 0 else (), compacted=False)
            for at, block_lines in enumerate(_split(lines, self._piece))
        ]


def _index_of(lines: Lines, key: Key, low: int = 0) -> int:
    """Return the index of the first line whose key is not before this key."""
    return bisect_left(range(len(lines)), key, lo=low, key=lines.key)


def _split(lines: Lines, most: int) -> Iterator[Lines]:
    """Split the lines into parts of about equal length, each of about `most` lines and of bounded text."""
    count = len(lines)
    # Don't round up, because batches slightly above `most` would make twice as many blocks.
    parts = max(
        min(1, count), round(count / most), min(count, _text_size(lines) // (most * MEAN_LINE_CHARACTERS))
    )
    for part in range(parts):
        yield lines.cut(part * count // parts, (part + 1) * count // parts)


def _text_size(lines: Lines) -> int:
    """Return the estimated characters of text, sampled from every 16th line."""
    some = lines.texts[::16]
    return sum(map(len, some)) * len(lines) // max(1, len(some))


def _pending_runs(blocks: Sequence[LogBlock]) -> Iterator[tuple[int, list[LogBlock]]]:
    """Yield (index of the first block, blocks) for each run of pending blocks."""
    run: list[LogBlock] = []
    for at, block in enumerate(blocks):
        if block.lines is not None:
            run.append(block)
        elif run:
            yield at - len(run), run
            run = []
    if run:
        yield len(blocks) - len(run), run
