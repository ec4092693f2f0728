"""The bytes of any file given by its path, as UTF-8: a pipe, a compressed file, or UTF-16.

Reading never blocks; an empty pipe returns nothing. Each read returns a bounded part, even of a compressed
file that expands very far.
"""

from __future__ import annotations

import codecs
import errno
import os
import select
import stat
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zstandard

STDIN = Path("/dev/stdin")
CHUNK = 64 * 1024
GROWTH = 1024 * 1024
"""Number of bytes that one call may decompress."""
_ZSTD_PIECE = 512
"""Number of compressed bytes per step. Every three bytes may expand to a block of 128 KiB."""
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_ENCODINGS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_FIRST = 4
"""Number of leading bytes that identify a file's format."""


class TextInput:
    """A file that is read once, from its start. Raises OSError if it can't be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path == STDIN:
            # A socket can't be opened by its path.
            self._fd = os.dup(0)
        else:
            # Opening a pipe without a writer would block.
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        self._mode = os.fstat(self._fd).st_mode
        if stat.S_ISDIR(self._mode):
            self.close()
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        self._raw = b""
        self._raw_ended = False
        self._begun = self._chosen = False
        self._unpack: Callable[[], bytes] | None = None
        self._decompressor: Any = None
        self._text: codecs.IncrementalDecoder | None = None
        self._begin()

    @property
    def regular(self) -> bool:
        """Whether this is a file on disk, which may grow and be replaced; other inputs end."""
        return stat.S_ISREG(self._mode)

    @property
    def plain(self) -> bool:
        """Whether this is a file on disk whose bytes are its text, so that any part of it can be read."""
        return self.regular and self._unpack is None and self._text is None

    def read(self) -> bytes | None:
        """Return the next part as UTF-8; `None` if no part is available yet, empty at the end. Raises OSError
        if the input can't be read or decompressed."""
        while True:
            if not self._begun and not self._begin():
                return None
            data = self._unpacked()
            if not data:
                return data if data is None else self._decoded(b"", final=True)
            text = self._decoded(data, final=False)
            if text:
                return text

    def status(self) -> os.stat_result:
        """Return the status of the open file, which its path may no longer name."""
        return os.fstat(self._fd)

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _begin(self) -> bool:
        """Detect the format from the first bytes. Return False while they are missing."""
        while len(self._raw) < _FIRST and not self._raw_ended:
            if not self._fill():
                return False
        self._begun = True
        if self._raw.startswith(_GZIP):
            self._unpack = self._gunzip
        elif self._raw.startswith(_ZSTD):
            self._unpack = self._unzstd
        else:
            self._choose_encoding(self._raw)
        return True

    def _choose_encoding(self, first: bytes) -> None:
        self._chosen = True
        for mark, name in _ENCODINGS.items():
            if first.startswith(mark):
                self._text = codecs.getincrementaldecoder(name)("replace")

    def _fill(self) -> bool:
        """Read more of the file's raw bytes. Return whether bytes or the end arrived."""
        if not self.regular:
            events = dict(self._poll.poll(0)).get(self._fd, 0)
            if not events:
                return False
        try:
            data = os.read(self._fd, CHUNK)
        except BlockingIOError:
            return False
        self._raw += data
        self._raw_ended = not data
        return True

    def _unpacked(self) -> bytes | None:
        if self._unpack is not None:
            try:
                return self._decompressed(self._unpack)
            except (zlib.error, zstandard.ZstdError) as error:
                raise OSError(errno.EINVAL, f"can't be decompressed: {error}") from error
        if not self._raw and not self._fill():
            return None
        data, self._raw = self._raw, b""
        return data

    def _decompressed(self, unpack: Callable[[], bytes]) -> bytes | None:
        while True:
            if not self._raw and not self._raw_ended and not self._fill():
                return None
            if not self._raw:
                return b""
            data = unpack()
            if self._decompressor.eof:
                # Several compressed files in a row form one text.
                self._decompressor = None
            if data:
                if not self._chosen:
                    self._choose_encoding(data)
                return data

    def _gunzip(self) -> bytes:
        decompressor = self._decompressor = self._decompressor or zlib.decompressobj(wbits=31)
        data: bytes = decompressor.decompress(self._raw, GROWTH)
        self._raw = decompressor.unused_data if decompressor.eof else decompressor.unconsumed_tail
        return data

    def _unzstd(self) -> bytes:
        decompressor = self._decompressor = self._decompressor or zstandard.ZstdDecompressor().decompressobj()
        piece, self._raw = self._raw[:_ZSTD_PIECE], self._raw[_ZSTD_PIECE:]
        data: bytes = decompressor.decompress(piece)
        if decompressor.eof:
            self._raw = decompressor.unused_data + self._raw
        return data

    def _decoded(self, data: bytes, *, final: bool) -> bytes:
        if self._text is None:
            return data
        return self._text.decode(data, final).encode()
