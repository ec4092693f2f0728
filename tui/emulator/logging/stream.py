"""One output file of a replica, read from an offset into rows of the log store.

A line's time comes from the stamps that the runner writes beside the file (`AttemptDir`). The line gets the
time of the first stamp after the line was written. A microsecond is added for each earlier line with the same
stamp, to preserve the order. A JSON line with a plausible time retains that time. The lines around it are
ordered around it if it may have been written at that time: not before the preceding stamp, or the start of
the attempt.
"""

from __future__ import annotations

import bisect
import contextlib
import logging
import sys
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2s
from pathlib import Path

from tui.domain.core.log_entry import Severity
from tui.domain.log.json_line import DAY, DEFAULT_SEVERITY, MAX_ENTRY, NotAnObject, parse_json_line, pieces
from tui.emulator.interfaces import JobRecord
from tui.emulator.logging.holes import hole_end, punch_hole
from tui.emulator.logging.record import JSON, MESSAGE, TEXT, EntryRow, LogEntryPb
from tui.emulator.paths import AttemptDir

log = logging.getLogger(__name__)

CHUNK = 256 * 1024
"""Number of bytes read and stored in one transaction."""
MAX_LINE = 4 * 1024 * 1024
"""Size in bytes above which lines are split, so that output without a newline needs limited memory."""
REWRITE_SECONDS = 2.0
"""Seconds between the stored parts of a line that rewrites itself with carriage returns (progress bars)."""
STALE_SECONDS = 2.0
"""Age in seconds after which unstamped output gets the file's modification time: its runner has ended."""
MICROSECOND = 1000
STAMP = 16
SLACK = 10**9
"""Nanoseconds by which a line's own time may precede the stamp of earlier lines."""


@dataclass(slots=True)
class OutputChunk:
    """The result of one read: rows, offset of the next read, last assigned timestamp."""

    rows: list[EntryRow]
    offset: int
    last: int
    more: bool = False


class OutputFile:
    """Read position in one output file of a replica. Use only in the writer's thread."""

    def __init__(self, job: JobRecord, attempt: AttemptDir, replica: str, stream: str) -> None:
        self.job = job
        self.attempt = attempt.number
        self.replica = replica
        self.stream = stream
        self.key = f"{job.id}/{attempt.number}/{replica}.{stream}"
        self.source = 0
        self.offset = 0
        self.last = 0
        self.done = False
        self.ready = False
        """Whether source and offset in the store are known."""
        self.fresh = True
        """Whether no entry after the offset is in the store."""
        self.ended = False
        """Whether the attempt has ended, so that the file no longer grows."""
        self._path = attempt.output(replica, stream)
        self._stamps = _Stamps(attempt.stamps(replica, stream), attempt.plan)
        self._waiting_since: float | None = None
        self._positioned = False
        """Whether the read position is known to be behind any hole."""
        self._missing = 0
        """Number of bytes of a hole at the read position, until an entry reports the hole."""
        self._released = 0
        """Number of freed bytes at the start of the file, -1 if the file system has no holes."""
        self._rewritten_at = time.monotonic()
        mark = blake2s(f"{job.name}/{replica}.{stream}".encode(), digest_size=5).hexdigest()
        self._insert_id = f"{attempt.number:02x}%012x{mark}"

    def read(self, ended: bool, received: int) -> OutputChunk | None:
        """Return the next chunk, received now (ns), or `None` if nothing new can be read yet.

        `ended` means that the file no longer grows, so its last line needs no newline. Raises OSError when an
        existing file can't be read.
        """
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        if not self._positioned:
            self._pass_hole(status.st_size)
        limit = self._limit(status.st_size, ended)
        if limit <= self.offset:
            return None
        with self._path.open("rb") as file:
            file.seek(self.offset)
            data = file.read(min(CHUNK, limit - self.offset))
            end = data.rfind(b"\n") + 1
            if not end:
                data += file.read(min(MAX_LINE, limit - self.offset) - len(data))
                end = data.rfind(b"\n") + 1
        if not end:
            if len(data) >= MAX_LINE or (ended and self.offset + len(data) >= status.st_size):
                end = len(data)
            else:
                end = self._rewritten(data)
            if not end:
                return None
        chunk = self._convert(data[:end], status.st_mtime_ns, received)
        chunk.more = chunk.offset < limit
        return chunk

    def _pass_hole(self, size: int) -> None:
        """Move the read position out of a hole, to the line after the hole.

        The position is in a hole when the offset was lost with the log, by damage or by a crash of the
        machine.
        """
        with self._path.open("rb") as file:
            start = hole_end(file.fileno(), self.offset, size)
            if start > self.offset:
                file.seek(start)
                # A line that starts in the hole is unusable.
                line = file.readline(MAX_LINE)
                end = start + len(line) if line.endswith(b"\n") else start
                self._missing, self.offset = end - self.offset, end
        self._positioned = True

    def release(self, kept: int) -> None:
        """Free the disk space of the stored output except its last `kept` bytes."""
        if self._released < 0 or self.offset - kept - self._released < CHUNK:
            return
        try:
            self._released = punch_hole(self._path, self.offset - kept)
        except OSError as error:
            # The output stays on disk, and nothing is lost.
            log.warning("the space of %s can't be freed: %s", self._path, error.strerror)
            self._released = -1

    def _rewritten(self, data: bytes) -> int:
        """Return how much of an unfinished line to store: up to its last rewriting, and not too often."""
        now = time.monotonic()
        if now - self._rewritten_at < REWRITE_SECONDS:
            return 0
        end = data.rfind(b"\r", 1)
        if end > 0:
            self._rewritten_at = now
        return max(0, end)

    def accept(self, chunk: OutputChunk) -> None:
        """Continue after a chunk that was stored."""
        self.offset, self.last, self._missing = chunk.offset, chunk.last, 0
        self._stamps.drop(self.offset)

    def _limit(self, size: int, ended: bool) -> int:
        """Return the offset up to which lines have a time. Later lines wait for their stamp for a limited
        time."""
        if size <= self.offset:
            self._waiting_since = None
            return self.offset
        self._stamps.load(self.offset)
        covered = min(size, self._stamps.covered)
        if covered > self.offset:
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = time.monotonic()
        stale = self._waiting_since is not None and time.monotonic() - self._waiting_since > STALE_SECONDS
        return size if ended or stale else max(covered, self.offset)

    def _convert(self, data: bytes, modified: int, received: int) -> OutputChunk:
        lines = data.split(b"\n")
        if data.endswith(b"\n"):
            lines.pop()
        offsets, bounds = self._stamps.lines_at(lines, self.offset, modified)
        kinds = [self._kind(line) for line in lines]
        times, last = line_times(bounds, [own for _, _, own in kinds], self.last, self._stamps.before)
        source, name = self.source, self._insert_id
        rows: list[EntryRow] = []
        if self._missing:
            text = (
                f"The output before this line is no longer in its file ({self._missing:,} bytes); "
                "the log contains only a part of it."
            )
            at = times[0] - MICROSECOND
            rows.append((source, at, name % (self.offset - 1), int(Severity.WARNING), TEXT, text, received))
        for line, offset, at, (kind, severity, _) in zip(lines, offsets, times, kinds, strict=True):
            if len(line) > MAX_ENTRY:
                rows += self._split(line, offset, at, received)
            else:
                text = line.decode("utf-8", "replace")
                rows.append((source, at, name % offset, severity, kind, text, received))
        return OutputChunk(rows, self.offset + len(data), last)

    def _kind(self, line: bytes) -> tuple[int, int, int | None]:
        """Return a line's kind of payload, severity and own time."""
        if line[:1] == b"{" and len(line) <= MAX_ENTRY:
            try:
                parsed = parse_json_line(line.decode("utf-8", "replace"))
            except NotAnObject:
                pass
            else:
                severity = DEFAULT_SEVERITY[self.stream] if parsed.severity is None else parsed.severity
                return JSON, severity, parsed.timestamp
        return TEXT, DEFAULT_SEVERITY[self.stream], None

    def _split(self, line: bytes, offset: int, at: int, received: int) -> list[EntryRow]:
        """Split a line above the size limit into entries with the same `split.uid` (LogEntry.split)."""
        rows: list[EntryRow] = []
        parts = pieces(line)
        uid = self._insert_id % offset
        for index, part in enumerate(parts):
            entry = LogEntryPb(text_payload=part.decode("utf-8", "replace"))
            entry.split.uid, entry.split.index, entry.split.total_splits = uid, index, len(parts)
            name = self._insert_id % offset
            rows.append(
                (
                    self.source,
                    at,
                    name,
                    DEFAULT_SEVERITY[self.stream],
                    MESSAGE,
                    entry.SerializeToString(),
                    received,
                )
            )
            offset += len(part)
        return rows


def line_times(
    bounds: Sequence[int], owns: Sequence[int | None], last: int, before: int = 0
) -> tuple[list[int], int]:
    """Return the timestamps of consecutive lines, and the timestamp that later lines must follow.

    `bounds` has the latest time at which each line was written, `owns` its own time; the first line was
    written after `before`. An own time within a day of the bound is used; the other lines retain their order
    between own times and after `last`. An own time from before the line can have been written does not order
    other lines.
    """
    times = list(bounds)
    if any(own is not None for own in owns):
        # A line followed by a line with an own time was written before that time, even if its stamp is later.
        limit = times[-1]
        for index in range(len(times) - 1, -1, -1):
            own, bound = owns[index], bounds[index]
            if own is not None and abs(own - bound) <= DAY:
                times[index] = own
                first = bisect.bisect_left(bounds, bound, hi=index)
                earliest = max(last, (bounds[first - 1] if first else before) - SLACK)
                limit = own if earliest < own <= bound else min(limit, bound)
            else:
                limit = times[index] = min(limit, bound)
            limit -= MICROSECOND
    for index, at in enumerate(times):
        if owns[index] is not None and abs(at - bounds[index]) <= DAY and at == owns[index]:
            # A program's clock that is ahead must not shift the lines after it.
            last = max(last, min(at, bounds[index]))
        else:
            last = times[index] = max(at, last + MICROSECOND)
    return times, last


class _Stamps:
    """The stamps of one file after the read position."""

    def __init__(self, path: Path, plan: Path) -> None:
        self._path = path
        self._plan = plan
        self.before = 0
        """Time (ns) after which the output behind the read position was written, 0 if it is unknown."""
        self._read = 0
        self._sizes = array("q")
        self._times = array("q")

    @property
    def covered(self) -> int:
        """Size of the output file at the last stamp."""
        return self._sizes[-1] if self._sizes else 0

    def load(self, offset: int) -> None:
        """Read new stamps; drop those at or before `offset`."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                data = file.read()
        except FileNotFoundError:
            return
        whole = len(data) - len(data) % STAMP
        if not whole:
            return
        self._read += whole
        numbers = array("q", data[:whole])
        if sys.byteorder != "little":
            numbers.byteswap()
        self._sizes.extend(numbers[0::2])
        self._times.extend(numbers[1::2])
        self.drop(offset)

    def drop(self, offset: int) -> None:
        passed = bisect.bisect_right(self._sizes, offset)
        if passed:
            self.before = self._times[passed - 1]
        elif not self.before:
            # The attempt's plan is written just before it starts.
            with contextlib.suppress(OSError):
                self.before = self._plan.stat().st_mtime_ns
        del self._sizes[:passed], self._times[:passed]

    def lines_at(self, lines: Sequence[bytes], offset: int, modified: int) -> tuple[list[int], list[int]]:
        """Return the offset of each line, and the latest time at which it was written."""
        offsets, bounds = [], []
        index, count = 0, len(self._sizes)
        for line in lines:
            offsets.append(offset)
            offset += len(line) + 1
            while index < count and self._sizes[index] < offset:
                index += 1
            bounds.append(self._times[index] if index < count else modified)
        return offsets, bounds
