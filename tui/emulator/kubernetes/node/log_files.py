"""Output of one run of a container as lines with times.

The times come from the stamps that the runner writes beside each output file (`AttemptDir`). A line has the
time of the first stamp after the line, plus one microsecond per earlier line with the same stamp. Therefore,
every reader computes the same time for a line.
"""

from __future__ import annotations

import bisect
import os
import struct
from array import array
from io import BufferedReader
from typing import NamedTuple

from tui.emulator.paths import AttemptDir

STREAM = "stdout"
"""Output file, which contains stderr too."""
PIECE = 16 * 1024
"""Piece size in bytes of longer lines, as container runtimes write them."""
BATCH = 256 * 1024
"""Number of bytes to read at once."""
_STAMP = 16
_MICROSECOND = 1000
_MOST = 40_000
"""Maximum number of lines of one stamp with distinct times; the next stamp follows after about 50 ms."""


class ContainerLogLine(NamedTuple):
    """A line. `data` includes the newline; `starts` is False for later pieces of a long line."""

    time: int
    data: bytes
    starts: bool = True


class _Stamps:
    """Times at which the output file reached a size."""

    def __init__(self, run: AttemptDir, container: str) -> None:
        self._path = run.stamps(container, STREAM)
        self._read = 0
        self.sizes, self.times = array("q"), array("q")

    def load(self) -> None:
        """Read new stamps."""
        try:
            if os.stat(self._path).st_size == self._read:  # noqa: PTH116 - ten times a second for each follower
                return
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
        """Return the index of the stamp of a line that ends at this offset."""
        return bisect.bisect_left(self.sizes, end)

    def begin(self, index: int) -> int:
        """Return the start offset of a stamp's part of the file."""
        return self.sizes[index - 1] if index else 0


class RunLog:
    """The lines of one run. Call `read` until it returns nothing, and again later."""

    def __init__(
        self, run: AttemptDir, container: str, *, since: int = 0, tail: int | None = None, ended: bool = True
    ) -> None:
        self._path = run.output(container, STREAM)
        self._stamps = _Stamps(run, container)
        self._file: BufferedReader | None = None
        self._offset = 0
        self._index, self._count = 0, 0
        self._starts = True
        self._since = since
        file = self._open()
        if file is not None and tail is not None:
            self._stamps.load()
            limit = self._limit(file, ended)
            self._place(file, limit if ended and not tail else _tail_start(file, limit, tail))
        elif file is not None and since:
            self._seek_time(file, since)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _seek_time(self, file: BufferedReader, since: int) -> None:
        """Start at the first line not older than `since`, or a few lines before."""
        self._stamps.load()
        # Microseconds may make lines of the previous stamp younger than `since`.
        index = max(0, bisect.bisect_left(self._stamps.times, since) - 1)
        known = index < len(self._stamps.sizes)
        begin = self._stamps.begin(index) if known else self._stamps.covered
        self._place(file, _tail_start(file, begin, 0))

    def read(self, ended: bool) -> list[ContainerLogLine]:
        """Return the next lines; lines without a stamp only if the run has `ended`.

        An empty list means that there are no more lines for now.
        """
        file = self._open()
        if file is None:
            return []
        self._stamps.load()
        limit = self._limit(file, ended)
        lines: list[ContainerLogLine] = []
        if limit <= self._offset:
            return lines
        file.seek(self._offset)
        first = self._offset
        while self._offset < limit:
            if self._offset - first >= BATCH and lines:
                break
            data = file.readline(min(PIECE, limit - self._offset))
            if not data:
                break
            whole = data.endswith(b"\n") or len(data) == PIECE
            if not whole and not (ended and self._offset + len(data) >= limit):
                break
            self._offset += len(data)
            line = ContainerLogLine(self._time(self._offset), data, self._starts)
            if line.time >= self._since:
                lines.append(line)
            self._starts = data.endswith(b"\n")
            # Count the pieces of a line once, like `_place`.
            self._count += self._starts
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
        # A killed runner has not stamped its last output.
        return file.seek(0, 2)

    def _place(self, file: BufferedReader, offset: int) -> None:
        """Continue at `offset`, which is the start of a line."""
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
        return base + min(self._count, _MOST) * _MICROSECOND

    def _modified(self) -> int:
        last = self._stamps.times[-1] if self._stamps.times else 0
        try:
            return max(last, self._path.stat().st_mtime_ns)
        except OSError:
            return last


def last_lines(run: AttemptDir, container: str, count: int) -> list[bytes]:
    """Return the last lines of an ended run."""
    log = RunLog(run, container, tail=count)
    try:
        return [line.data for line in log.read(True)]
    finally:
        log.close()


def _tail_start(file: BufferedReader, end: int, count: int) -> int:
    """Return the offset of the last `count` lines before `end`; for 0, of the unfinished line."""
    if end <= 0:
        return 0
    file.seek(end - 1)
    # A final newline ends the last line.
    newlines = count + 1 if file.read(1) == b"\n" else max(count, 1)
    position = end
    while position > 0:
        begin = max(0, position - BATCH)
        file.seek(begin)
        chunk = file.read(position - begin)
        present = chunk.count(b"\n")
        if present >= newlines:
            at = len(chunk)
            for _ in range(newlines):
                at = chunk.rfind(b"\n", 0, at)
            return begin + at + 1
        newlines -= present
        position = begin
    return 0
