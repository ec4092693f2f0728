"""Parses the lines of a container's log from the kubelet, each with its time (`timestamps=true`)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

SECOND = 10**9
MOST_REST = 32 * 1024 * 1024
"""Size in bytes above which an unfinished line is passed on in parts."""
_STAMP = re.compile(
    rb"(?P<second>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{1,9}))?(?P<zone>Z|[+-]\d\d:\d\d)(?: |$)"
)


@dataclass(frozen=True, slots=True)
class StampedLine:
    """One line with its timestamp by the node's clock, in ns since the epoch."""

    stamp: int
    text: bytes


class LineSplitter:
    """Joins the chunks of a stream and splits them into lines.

    A line without a time is a message of the kubelet, e.g. that it can't find the file. `trouble` is the
    newest of these messages. Text after the last line end becomes a line only in `rest`.
    """

    def __init__(self) -> None:
        self.trouble = ""
        self._rest: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[StampedLine]:
        """Return the lines that end in this chunk."""
        first, *more = piece.split(b"\n")
        self._rest.append(first)
        self._size += len(first)
        if not more:
            return self._take([b"".join(self._rest)]) if self._size > MOST_REST else []
        whole = [b"".join(self._rest), *more[:-1]]
        self._rest, self._size = [more[-1]], len(more[-1])
        return self._parse(whole)

    def rest(self) -> list[StampedLine]:
        """Return the last line of a log that ended without a line feed."""
        left = b"".join(self._rest)
        return self._take([left]) if left else []

    def _take(self, lines: list[bytes]) -> list[StampedLine]:
        self._rest, self._size = [], 0
        return self._parse(lines)

    def _parse(self, lines: list[bytes]) -> list[StampedLine]:
        lines_ = []
        for line in lines:
            match = _STAMP.match(line)
            if match is None:
                if line.strip():
                    self.trouble = line[:400].decode("utf-8", "replace").strip()
                continue
            lines_.append(StampedLine(_stamp(*match.groups()), line[match.end() :]))
        return lines_


def stamp_of(text: str) -> int | None:
    """Return an RFC 3339 time in nanoseconds since the epoch, or `None` for any other text."""
    match = _STAMP.fullmatch(text.encode())
    return _stamp(*match.groups()) if match is not None else None


def _stamp(second: bytes, fraction: bytes | None, zone: bytes) -> int:
    return _seconds(second, zone) * SECOND + (int(fraction.ljust(9, b"0")) if fraction else 0)


@lru_cache(maxsize=256)
def _seconds(second: bytes, zone: bytes) -> int:
    # Thousands of lines arrive per second, and most share their second with the previous line.
    try:
        moment = datetime.fromisoformat(f"{second.decode()}{'+00:00' if zone == b'Z' else zone.decode()}")
    except ValueError:
        # A leap second, or a node with a broken clock: keep the line and ignore its time.
        return 0
    return int(moment.timestamp())


def moment_of(stamp: int) -> datetime:
    """Convert a stamp to a time, to the microsecond."""
    return datetime.fromtimestamp(stamp // SECOND, UTC).replace(microsecond=stamp % SECOND // 1000)


def stamp_at(moment: datetime) -> int:
    """Convert a time to a stamp."""
    return int(moment.timestamp()) * SECOND + moment.microsecond * 1000


def since_time(second: int | None) -> str | None:
    """Format a time in seconds since the epoch for `sinceTime`, which has no fractions."""
    return None if second is None else f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%SZ}"
