"""The output of one run of a container as lines in order of time.

The times come from the stamps that the runner writes beside each output file (`AttemptDir`): a line has the
time of the first stamp after it was written, plus a microsecond for each earlier line with the same stamp. So
a line has the same time whenever and from wherever it is read.
"""

from __future__ import annotations

import bisect
import struct
from array import array
from collections import deque
from collections.abc import Iterator
from io import BufferedReader
from typing import NamedTuple

from tui.emulator.paths import AttemptDir

STREAMS = ("stderr", "stdout")
"""In this order: the runner stamps stdout first, so what is read later can't be older than what was read."""
PIECE = 16 * 1024
"""A longer line comes in pieces of this many bytes, as container runtimes write them."""
BATCH = 256 * 1024
"""Bytes of one stream that are read at once."""
_STAMP = 16
_MICROSECOND = 1000
_MOST = 40_000
"""Lines of one stamp that get times of their own; the next stamp is some 50 ms later."""


class Line(NamedTuple):
    """`data` includes the newline; `starts` is False for the later pieces of a long line."""

    time: int
    data: bytes
    starts: bool = True


class _Stamps:
    """When the file had which size."""

    def __init__(self, run: AttemptDir, container: str, stream: str) -> None:
        self._path = run.stamps(container, stream)
        self._read = 0
        self.sizes, self.times = array("q"), array("q")

    def load(self) -> None:
        """Read those that are new."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                data = file.read()
        except OSError:
            return
        data = data[: len(data) - len(data) % _STAMP]
        self._read += len(data)
        for size, time in struct.iter_unpack("<qq", data):
            self.sizes.append(size)
            self.times.append(time)

    @property
    def covered(self) -> int:
        return self.sizes[-1] if self.sizes else 0

    def index(self, end: int) -> int:
        """Which stamp is that of a line that ends at this offset."""
        return bisect.bisect_left(self.sizes, end)

    def begin(self, index: int) -> int:
        """Where the part of the file begins that this stamp is for."""
        return self.sizes[index - 1] if index else 0


class _Stream:
    """One output file, read from an offset on."""

    def __init__(self, run: AttemptDir, container: str, stream: str) -> None:
        self._path = run.output(container, stream)
        self._stamps = _Stamps(run, container, stream)
        self._file: BufferedReader | None = None
        self._offset = 0
        self._index, self._count = 0, 0
        self._starts = True
        self.more = False
        """There is more to read now."""

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def seek_time(self, since: int) -> None:
        """Begin at the first line that is not older than `since`, or a few before it."""
        file = self._open()
        if file is None:
            return
        self._stamps.load()
        # Lines of the stamp before may be younger than it by their microseconds.
        index = max(0, bisect.bisect_left(self._stamps.times, since) - 1)
        if index < len(self._stamps.sizes):
            self._place(file, _line_start(file, self._stamps.begin(index)))
        else:
            self._place(file, _line_start(file, self._stamps.covered))

    def seek_tail(self, count: int, ended: bool) -> None:
        """Begin `count` lines before the present end."""
        file = self._open()
        if file is not None:
            self._stamps.load()
            self._place(file, _tail_start(file, self._limit(file, ended), count))

    def read(self, ended: bool) -> list[Line]:
        """The next lines; those that have no stamp yet only where the run has `ended`."""
        self.more = False
        file = self._open()
        if file is None:
            return []
        self._stamps.load()
        limit = self._limit(file, ended)
        lines: list[Line] = []
        file.seek(self._offset)
        first = self._offset
        while self._offset < limit:
            if self._offset - first >= BATCH:
                self.more = True
                break
            data = file.readline(min(PIECE, limit - self._offset))
            if not data:
                break
            whole = data.endswith(b"\n") or len(data) == PIECE
            if not whole and not (ended and self._offset + len(data) >= limit):
                break
            self._offset += len(data)
            lines.append(Line(self._time(self._offset), data, self._starts))
            self._starts = data.endswith(b"\n")
        return lines

    def _open(self) -> BufferedReader | None:
        if self._file is None:
            try:
                self._file = self._path.open("rb")
            except OSError:
                return None
        return self._file

    def _limit(self, file: BufferedReader, ended: bool) -> int:
        if not ended:
            return self._stamps.covered
        # A runner that was killed has not stamped its last output.
        return file.seek(0, 2)

    def _place(self, file: BufferedReader, offset: int) -> None:
        """Continue at `offset`, the start of a line."""
        self._offset, self._starts = offset, True
        self._index = self._stamps.index(offset + 1)
        begin = self._stamps.begin(self._index)
        file.seek(begin)
        self._count = file.read(max(0, offset - begin)).count(b"\n")

    def _time(self, end: int) -> int:
        index = self._index
        if index < len(self._stamps.sizes) and self._stamps.sizes[index] < end:
            index = self._stamps.index(end)
        if index != self._index:
            self._index, self._count = index, 0
        base = self._stamps.times[index] if index < len(self._stamps.times) else self._modified()
        time = base + min(self._count, _MOST) * _MICROSECOND
        self._count += 1
        return time

    def _modified(self) -> int:
        last = self._stamps.times[-1] if self._stamps.times else 0
        try:
            return max(last, self._path.stat().st_mtime_ns)
        except OSError:
            return last


class RunLog:
    """The lines of both streams, merged. Use `read` until it returns nothing, and again later."""

    def __init__(
        self, run: AttemptDir, container: str, *, since: int = 0, tail: int | None = None, ended: bool = True
    ) -> None:
        self._streams = [_Stream(run, container, stream) for stream in STREAMS]
        self._waiting: list[deque[Line]] = [deque() for _ in self._streams]
        self._since = since
        self._first: list[Line] = []
        if tail is not None:
            for stream in self._streams:
                stream.seek_tail(tail, ended)
            newest: deque[Line] = deque(maxlen=tail)
            while lines := self._merge(ended):
                newest.extend(lines)
            self._first = [line for line in newest if line.time >= since]
        elif since:
            for stream in self._streams:
                stream.seek_time(since)

    def read(self, ended: bool) -> list[Line]:
        """The next lines in order of time; none when there are no more for now."""
        if self._first:
            first, self._first = self._first, []
            return first
        while lines := self._merge(ended):
            if kept := [line for line in lines if line.time >= self._since]:
                return kept
        return []

    def close(self) -> None:
        for stream in self._streams:
            stream.close()

    def _merge(self, ended: bool) -> list[Line]:
        for stream, waiting in zip(self._streams, self._waiting, strict=True):
            if not waiting:
                waiting.extend(stream.read(ended))
        # Beyond the end of a batch, the rest of its stream may come first.
        bounds = [
            waiting[-1].time
            for stream, waiting in zip(self._streams, self._waiting, strict=True)
            if stream.more and waiting
        ]
        bound = min(bounds, default=None)
        return list(_in_order(self._waiting, bound))


def _in_order(waiting: list[deque[Line]], bound: int | None) -> Iterator[Line]:
    """Take the lines up to `bound`, oldest first."""
    last: deque[Line] | None = None
    while True:
        heads = [queue for queue in waiting if queue and (bound is None or queue[0].time <= bound)]
        if not heads:
            return
        # The pieces of a line stay together.
        oldest = (
            last if last and last in heads and not last[0].starts else min(heads, key=lambda q: q[0].time)
        )
        yield oldest.popleft()
        last = oldest


def last_lines(run: AttemptDir, container: str, count: int) -> list[bytes]:
    """The last lines of a run that has ended."""
    log = RunLog(run, container, tail=count)
    try:
        return [line.data for line in log.read(True)]
    finally:
        log.close()


def _line_start(file: BufferedReader, offset: int) -> int:
    """The start of the line that goes on at `offset`."""
    return _tail_start(file, offset, 0) if offset else 0


def _tail_start(file: BufferedReader, end: int, count: int) -> int:
    """The offset of the last `count` lines before `end`; of the unfinished one for 0."""
    if end <= 0:
        return 0
    file.seek(end - 1)
    # A newline at the end is that of the last line.
    wanted = count + 1 if file.read(1) == b"\n" else max(count, 1)
    if count == 0 and wanted == 1:
        wanted = 1
    position = end
    while position > 0:
        begin = max(0, position - BATCH)
        file.seek(begin)
        chunk = file.read(position - begin)
        found = chunk.count(b"\n")
        if found >= wanted:
            at = len(chunk)
            for _ in range(wanted):
                at = chunk.rfind(b"\n", 0, at)
            return begin + at + 1
        wanted -= found
        position = begin
    return 0
