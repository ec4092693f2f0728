"""Any text file as a log: only line counts are stored; visible lines are read from the file.

The file may grow; `count_new_lines` counts the new lines. A line's number takes the place of its time, so
that its key is its number. JSON objects are parsed; the severity of other lines follows from their words.
A line that `gcloud ai custom-jobs stream-logs` printed names its severity and its replica.
"""

from __future__ import annotations

import errno
import json
import os
import re
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from time import perf_counter
from weakref import WeakSet

from tui.domain.core.log_entry import Severity
from tui.domain.log.judge import SeverityJudge
from tui.domain.log.plain_line import collapsed
from tui.store.log.filters import LineFilter
from tui.store.log.lines import Line, Lines, line_key
from tui.store.log.view import View

BLOCK = 128 * 1024
_STREAMED = re.compile(
    rf"(?P<label>{'|'.join(severity.name for severity in Severity)})\t"
    r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d\d:?\d\d)\t"
    r"(?P<replica>[\w.-]{1,63})(?:\t|$)"
)
"""The start of a line of stream-logs: severity, time, replica, then the message."""
LINE = 64 * 1024
"""Number of characters of a line that are shown; a file may be one line of any length."""
SAMPLE = 64
CHUNK = 8
"""Number of blocks read at once."""
CACHED_BLOCKS = 16


class TextFile:
    """A text file as a log. Raises OSError if it can't be opened or is a folder. A copy is a separate file to
    which the text of a pipe or of a compressed file is written."""

    def __init__(self, path: Path, copy: int | None = None) -> None:
        """Open the file. `copy` is the descriptor of a copy, which is closed together with the log."""
        self.path = path
        self.copied = copy is not None
        self.notice = ""
        """A change of the file, e.g. its replacement."""
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if copy is None else copy
        os.pread(self._fd, 1, 0)
        self._sample = b""
        self.dropped = 0
        self.full = True
        self.problem = ""
        self.revision = 0
        self._size = 0
        """Number of scanned bytes."""
        self._starts: array[int] = array("Q", [0])
        """Number of lines that begin before each block, and before the end of the scanned bytes."""
        self._open_end = False
        """Whether the last line has no line break yet and may grow."""
        self._cached: OrderedDict[int, Lines] = OrderedDict()
        self.replicas: dict[str, None] = {}
        """Replicas of the lines that have been read."""
        self._views: WeakSet[View] = WeakSet()

    # New lines

    def count_new_lines(self, seconds: float) -> bool:
        """Count new lines for about `seconds`. Return whether all are counted. Raises OSError."""
        until = perf_counter() + seconds
        self._look()
        size = os.fstat(self._fd).st_size
        while self._size < size:
            self._count(size)
            if perf_counter() > until:
                break
        return self._size >= size

    def _look(self) -> None:
        """Detect that the file was rewritten or replaced, and read the new text."""
        if self.copied:
            return
        here = os.fstat(self._fd)
        try:
            there = self.path.stat()
        except OSError:
            # The file was deleted or is being rotated. The old text can still be read.
            there = here
        if (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino):
            new = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            os.close(self._fd)
            self._fd = new
            self._restart("rotated: this is the new file")
        elif here.st_size < self._size or self._sample != self._take_sample():
            self._restart("rewritten: this is the new text")

    def _take_sample(self) -> bytes:
        """Return bytes at both ends of the scanned part, which appending does not change."""
        count = min(SAMPLE, self._size)
        return os.pread(self._fd, count, 0) + os.pread(self._fd, count, self._size - count)

    def _restart(self, why: str) -> None:
        """Read the file from its start."""
        self.notice = why
        self._size, self._starts, self._open_end, self._sample = 0, array("Q", [0]), False, b""
        self._changed(0)

    def _changed(self, number: int) -> None:
        self.revision += 1
        self._cached.clear()
        for view in self._views:
            view.rescan_from(number)

    def _count(self, size: int) -> None:
        before, old_end = self._size, self.end
        # Count an incomplete block again.
        at = before - before % BLOCK
        if before % BLOCK:
            self._starts.pop()
        elif self._skip_hole(at, size):
            return
        # A line begins after a line break, so the window starts one byte early.
        data = os.pread(self._fd, min(CHUNK * BLOCK, size - at) + (at > 0), max(0, at - 1))
        end = at + len(data) - (at > 0)
        shift = int(at > 0)
        for begin in range(at, end, BLOCK):
            low, high = begin - at + shift, min(begin + BLOCK, end) - at + shift
            begun = data.count(b"\n", max(0, low - 1), high - 1) + (begin == 0)
            self._starts.append(self._starts[-1] + begun)
        self._cached.pop(at // BLOCK, None)
        if self._open_end and end > before:
            # The last line has grown.
            self._changed(max(0, old_end - 1))
        self._size = end
        self._open_end = not data.endswith(b"\n")
        self._sample = self._take_sample()

    def _skip_hole(self, at: int, size: int) -> bool:
        """Count the blocks of a hole, which has no line break, without reading it."""
        try:
            data = os.lseek(self._fd, at, os.SEEK_DATA)
        except OSError as error:
            data = size if error.errno == errno.ENXIO else at
        blocks = (min(data, size) - at) // BLOCK
        if at == 0 or blocks < 2:
            return False
        if not self._open_end:
            self._starts.append(self._starts[-1] + 1)
            blocks -= 1
            at += BLOCK
        self._starts.extend(array("Q", [self._starts[-1]]) * blocks)
        self._open_end = True
        self._size = at + blocks * BLOCK
        self._sample = self._take_sample()
        return True

    # The interface of a view's source

    def __len__(self) -> int:
        return self.end

    @property
    def first(self) -> int:
        """Number of the first line."""
        return 0

    @property
    def end(self) -> int:
        """The number after the last line."""
        return self._starts[-1]

    @property
    def oldest(self) -> datetime | None:
        """`None`, because lines of a file have no time."""
        return None

    def columns(self, start: int, stop: int) -> Iterator[tuple[int, Lines]]:
        """Yield (first line's number, columns) of each block with lines from `start` to before `stop`."""
        at = max(0, bisect_right(self._starts, start) - 1)
        while at < len(self._starts) - 1 and self._starts[at] < stop:
            yield self._starts[at], self._block(at)
            # Skip the blocks in which no line begins, i.e. blocks of a long line or of a hole.
            at = bisect_right(self._starts, self._starts[at + 1]) - 1

    def _block(self, at: int) -> Lines:
        lines = self._cached.get(at)
        if lines is None:
            lines = self._cached[at] = self._lines(at)
            self.replicas |= dict.fromkeys(sorted({*lines.replicas} - {""}))
            if len(self._cached) > CACHED_BLOCKS:
                self._cached.popitem(last=False)
        else:
            self._cached.move_to_end(at)
        return lines

    def _lines(self, at: int) -> Lines:
        count = self._starts[at + 1] - self._starts[at]
        begin = at * BLOCK
        shift = int(begin > 0)
        data = os.pread(self._fd, BLOCK + shift, begin - shift)
        # The text before the first line break belongs to the previous block.
        low = 0 if begin == 0 else data.find(b"\n", 0, BLOCK) + 1
        parts, more = [data[low:]], begin - shift + len(data)
        most = begin + BLOCK + LINE
        while count and parts[-1] and not parts[-1].endswith(b"\n") and more < min(self._size, most):
            rest = os.pread(self._fd, BLOCK, more)
            cut = rest.find(b"\n")
            parts.append(rest if cut < 0 else rest[: cut + 1])
            more += len(rest)
        if more >= most and b"\r" in (end := self._end_of_line(at)):
            parts += [b"\r", end]
        text = b"".join(parts).decode(errors="replace")
        texts = text.split("\n")[:count]
        # A block may have as many lines as bytes, so process all lines together where possible.
        if "\r" in text:
            texts = [line.removesuffix("\r") for line in texts]
        if max(map(len, texts), default=0) > LINE:
            texts = [_bounded(line) for line in texts]
        return as_lines(self._starts[at], texts)

    def __getitem__(self, number: int) -> Line:
        """Return the line of that number. Raises IndexError for an unknown number."""
        if not 0 <= number < self.end:
            raise IndexError(f"line {number} does not exist; the file has {self.end} lines")
        begin, lines = next(iter(self.columns(number, number + 1)))
        return lines.line(number - begin)

    def find(self, line: Line) -> int:
        """Return the number of a line of this file."""
        return line_key(line)[0] // 1000

    def view(self, filter: LineFilter | None = None) -> View:
        """Return a view that follows the file while the view is referenced."""
        view = View(self, filter or LineFilter())
        self._views.add(view)
        return view

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _end_of_line(self, at: int) -> bytes:
        """Return the end of a long line that begins in a block: the last state of a progress bar."""
        next_line = bisect_right(self._starts, self._starts[at + 1]) - 1
        data = os.pread(self._fd, LINE + BLOCK, min(next_line * BLOCK, self._size) - LINE)
        cut = data.find(b"\n", LINE - 1)
        return data if cut < 0 else data[:cut]


def _bounded(text: str) -> str:
    if len(text) > LINE:
        text = collapsed(text)
    return text if len(text) <= LINE else f"{text[:LINE]} … (the line continues)"


def as_lines(first: int, texts: list[str]) -> Lines:
    """Parse lines of a file into columns; `first` is the number of the first line."""
    judge = SeverityJudge().judge
    payloads, codes, code = {}, bytearray(), 0
    messages, replicas, replica, label = [], [], "", Severity.DEFAULT
    for at, text in enumerate(texts):
        fields = _object(text) if text[:1] == "{" else None
        if fields is not None:
            payloads[at] = text
        message = shown = text
        if "\t" in text[4:10] and (streamed := _STREAMED.match(text)):
            replica, label = streamed["replica"], Severity[streamed["label"]]
            message = text[streamed.end() :]
            shown = f"{streamed['time']} {message}"
        # A block may have as many empty lines as bytes. An empty line has the severity of the previous line.
        code = judge(replica, label, message, fields) // 100 if message else code
        codes.append(code)
        messages.append(shown)
        replicas.append(replica)
    count = len(texts)
    numbers = range(first * 1000, (first + count) * 1000, 1000)
    return Lines(numbers, [""] * count, replicas, bytes(codes), messages, payloads)


def _object(text: str) -> dict[str, object] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
