"""Blocks of log lines on disk: append-only files, and the encoding of a block.

A block holds the columns of some lines and names the blocks it replaces, so that small or unordered blocks
can be rewritten together later without overwriting anything. Blocks that replace others together form a
group. Only a complete group replaces anything, so a write that SIGKILL or a full disk interrupts leaves the
earlier blocks valid.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
import zlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from operator import itemgetter
from pathlib import Path

import zstandard

from tui.store.log.lines import Key, Lines

_MAGIC = b"vxl2"
_PLAIN_MAGIC = b"vxl1"
"""Magic of blocks that an earlier version wrote, with uncompressed columns."""
_LEVEL = 1
"""zstd level. Compression takes a tenth as long as the other steps of the encoding."""
_MAX_BLOCK = 1 << 30
"""Maximum size of a block's columns in bytes, so that a damaged block can't claim more."""
_HEAD = struct.Struct("<4sIIIQIHH4I")
"""Header fields: magic number, size and CRC of the rest, header size, id, number of lines, part, number of
parts, and four counts."""
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
_PARTS = 1000
"""Number of buffers per pwritev call; the kernel accepts at most 1,024."""
ENCODING = ("utf-8", "surrogatepass")
_SIZES = struct.Struct("<5I")


@dataclass(frozen=True, slots=True)
class BlockHeader:
    """A block's header, which can be read without its lines."""

    id: int
    count: int
    counts: tuple[int, int, int, int]
    """Counts of lines, as in `Lines.counts`."""
    first: Key
    last: Key
    replaces: tuple[int, ...] = ()
    part: int = 0
    parts: int = 1
    """Number of parts of the group. Part `part` is valid only together with all `parts` blocks."""


def _pack(texts: Sequence[str]) -> bytes:
    """Encode texts as bytes, with their lengths only if a text contains a line break."""
    if "\n" not in "".join(texts):
        # The leading NUL marks this format; joining it here saves a copy.
        return "\n".join(("\0", *texts)).encode(*ENCODING)
    ends = array("I", accumulate(map(len, texts)))
    return b"\1" + ends.tobytes() + "".join(texts).encode(*ENCODING)


def _unpack(data: bytes, count: int) -> list[str]:
    if not count:
        return []
    if data[0] == 0:
        return str(memoryview(data)[2:], *ENCODING).split("\n")
    ends = array("I", data[1 : 1 + 4 * count])
    text = str(data[1 + 4 * count :], *ENCODING)
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _width(names: int) -> str:
    """Return the array type code for an index into `names` names."""
    return "B" if names <= 256 else "I"


def _numbered(replicas: Sequence[str], names: Sequence[str]) -> bytes:
    """Return the index of the replica's name for each line."""
    number = {name: at for at, name in enumerate(names)}
    # itemgetter looks all keys up in one call; for a single key it returns no tuple.
    indexes = itemgetter(*replicas)(number) if len(replicas) > 1 else [number[name] for name in replicas]
    return bytes(indexes) if _width(len(names)) == "B" else array("I", indexes).tobytes()


def encode(header: BlockHeader, lines: Lines) -> list[bytes]:
    """Return the bytes of one block in parts, because joining them would copy the entire block."""
    names = list(dict.fromkeys(lines.replicas))
    header_json = json.dumps([header.first, header.last, header.replaces, names]).encode()
    columns = (
        struct.pack(f"{len(lines)}q", *lines.times) + _numbered(lines.replicas, names) + lines.severities
    )
    where = array("I", lines.payloads)
    payloads = _pack(list(lines.payloads.values())) if where else b""
    blobs = (columns, _pack(lines.ids), _pack(lines.texts), where.tobytes(), payloads)
    # The header must be readable on its own, because a start reads nothing else.
    packed = _compressor().compress(b"".join((_SIZES.pack(*map(len, blobs)), *blobs)))
    head = _HEAD.pack(
        _MAGIC,
        len(header_json) + len(packed),
        zlib.crc32(packed, zlib.crc32(header_json)),
        len(header_json),
        header.id,
        header.count,
        header.part,
        header.parts,
        *header.counts,
    )
    return [head, header_json, packed]


@lru_cache(maxsize=1)
def _compressor() -> zstandard.ZstdCompressor:
    return zstandard.ZstdCompressor(level=_LEVEL)


def decode(data: bytes) -> Lines:
    """Return the lines of a block. Raises ValueError if it is damaged."""
    try:
        magic, size, crc, header_size, _, count, *_ = _HEAD.unpack_from(data)
        rest = memoryview(data)[_HEAD.size : _HEAD.size + size]
        if len(rest) != size or zlib.crc32(rest) != crc:
            raise ValueError("a block of the log is damaged")
        names = json.loads(bytes(rest[:header_size]))[3]
        body = rest[header_size:]
        if magic != _PLAIN_MAGIC:
            if zstandard.frame_content_size(body) > _MAX_BLOCK:
                raise ValueError("a block of the log is damaged: its size is implausible")
            body = memoryview(zstandard.ZstdDecompressor().decompress(body))
        sizes = _SIZES.unpack_from(body)
        at, blobs = _SIZES.size, []
        for size in sizes:
            blobs.append(bytes(body[at : at + size]))
            at += size
        times = array("q", blobs[0][: 8 * count])
        wide = _width(len(names))
        replicas = [names[n] for n in array(wide, blobs[0][8 * count : -count])]
        where = array("I", blobs[3])
        payloads = dict(zip(where, _unpack(blobs[4], len(where)), strict=True))
        severities = blobs[0][-count:]
        return Lines(
            times.tolist(), _unpack(blobs[1], count), replicas, severities, _unpack(blobs[2], count), payloads
        )
    except (struct.error, IndexError, KeyError, TypeError, zstandard.ZstdError) as error:
        raise ValueError(f"a block of the log can't be read: {error}") from None


class BlockFile:
    """One file of blocks. Raises OSError if the disk fails. A descriptor is held only for the file being
    written, and for an unnamed file."""

    def __init__(self, path: Path | None, *, new: bool) -> None:
        """Open the file, or without a path an unnamed temporary file."""
        self.path = path
        if path is None:
            with tempfile.TemporaryFile(prefix="vxtui-log-") as file:
                self._fd = os.dup(file.fileno())
        else:
            self._fd = os.open(path, _FLAGS | (os.O_EXCL if new else 0), 0o600)
        self.size = os.fstat(self._fd).st_size
        self.live = 0
        """Number of the file's blocks that are still used."""

    def append(self, parts: Sequence[bytes]) -> int:
        """Append the parts and return their offset. Truncate a write that fails half-way."""
        at = end = self.size
        if self._fd < 0 and self.path is not None:
            self._fd = os.open(self.path, _FLAGS, 0o600)
        try:
            for start in range(0, len(parts), _PARTS):
                end = self._put(parts[start : start + _PARTS], end)
        except OSError:
            os.ftruncate(self._fd, at)
            raise
        self.size = end
        return at

    def _put(self, parts: Sequence[bytes], at: int) -> int:
        """Write at offset `at`. Return the end offset."""
        end = at + sum(map(len, parts))
        at += os.pwritev(self._fd, parts, at)
        if at < end:
            left = memoryview(b"".join(parts))[at - end :]
            while left:
                left = left[os.pwrite(self._fd, left, end - len(left)) :]
        return end

    def read(self, at: int, size: int) -> bytes:
        """Return `size` bytes from offset `at`, or fewer at the end of the file."""
        if self._fd >= 0 or self.path is None:
            return os.pread(self._fd, size, at)
        with self.path.open("rb", buffering=0) as file:
            return os.pread(file.fileno(), size, at)

    def rest(self) -> None:
        """Release the descriptor until the next write."""
        if self._fd >= 0 and self.path is not None:
            os.close(self._fd)
            self._fd = -1

    def headers(self) -> Iterator[tuple[BlockHeader, int, int]]:
        """Yield each block's header, offset and size. Truncate the file after the last complete block."""
        at = 0
        while at < self.size:
            head = self.read(at, 4096)
            header = _read_header(head)
            if header is None and len(head) == 4096:
                # A header that names many replaced blocks is longer.
                header = _read_header(self.read(at, _HEAD.size + _HEAD.unpack_from(head)[3]))
            if header is None or at + header[1] > self.size:
                break
            # Only the last block can be incomplete. The CRC of the other blocks is checked when they are
            # read.
            if at + header[1] == self.size and not _whole(self.read(at, header[1])):
                break
            yield header[0], at, header[1]
            at += header[1]
        if at < self.size:
            os.ftruncate(self._fd, at)
            self.size = at

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def remove(self) -> None:
        """Close the file and delete it."""
        self.close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def _read_header(head: bytes) -> tuple[BlockHeader, int] | None:
    if len(head) < _HEAD.size or head[:4] not in {_MAGIC, _PLAIN_MAGIC}:
        return None
    _, size, _, header_size, number, count, part, parts, *counts = _HEAD.unpack_from(head)
    if len(head) < _HEAD.size + header_size:
        return None
    try:
        first, last, replaces, _ = json.loads(head[_HEAD.size : _HEAD.size + header_size])
        header = BlockHeader(
            number, count, _four(counts), _key(first), _key(last), tuple(replaces), part, parts
        )
    except (ValueError, TypeError):
        return None
    return header, _HEAD.size + size


def _four(counts: list[int]) -> tuple[int, int, int, int]:
    fine, warnings, errors, gaps = counts
    return (fine, warnings, errors, gaps)


def _key(key: list[object]) -> Key:
    time, name, replica = key
    return (int(str(time)), str(name), str(replica))


def _whole(data: bytes) -> bool:
    _, size, crc, *_ = _HEAD.unpack_from(data)
    return zlib.crc32(memoryview(data)[_HEAD.size : _HEAD.size + size]) == crc
