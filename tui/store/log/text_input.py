"""The bytes of any file given by its path, as UTF-8: a pipe, a compressed file, UTF-16.

Nothing here waits: a pipe into which nobody has written yet has nothing now. A read returns a bounded part,
however much a compressed file grows.
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

CHUNK = 64 * 1024
GROWTH = 1024 * 1024
"""Bytes that one call may decompress."""
_ZSTD_PIECE = 512
"""Bytes decompressed at once: each three of them may be a block of 128 KiB."""
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_ENCODINGS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_FIRST = 4
"""Bytes that tell what a file is."""


class TextInput:
    """A file that is read once, from its start. Raises OSError for one that can't be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # A pipe without a writer would block here.
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
        """A file on a disk, which may grow and be replaced; anything else ends when its writer does."""
        return stat.S_ISREG(self._mode)

    @property
    def plain(self) -> bool:
        """A file on a disk whose bytes are its text, so that it can be read from anywhere."""
        return self.regular and self._unpack is None and self._text is None

    def read(self) -> bytes | None:
        """The next part as UTF-8; `None` where there is none yet, empty at the end.

        Raises:
            OSError: when it can't be read or can't be decompressed.
        """
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
        """Of the file that is open, which may no longer be the one at its path."""
        return os.fstat(self._fd)

    def close(self) -> None:
        """Close it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _begin(self) -> bool:
        """Find out from the first bytes what it is; false while they are not there."""
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
        """Read more of the file's own bytes; whether something came, or its end."""
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
                # Several compressed files in a row are one.
                self._decompressor = None
            if data:
                if not self._chosen:
                    self._choose_encoding(data)
                return data

    def _gunzip(self) -> bytes:
        found = self._decompressor = self._decompressor or zlib.decompressobj(wbits=31)
        data: bytes = found.decompress(self._raw, GROWTH)
        self._raw = found.unused_data if found.eof else found.unconsumed_tail
        return data

    def _unzstd(self) -> bytes:
        found = self._decompressor = self._decompressor or zstandard.ZstdDecompressor().decompressobj()
        piece, self._raw = self._raw[:_ZSTD_PIECE], self._raw[_ZSTD_PIECE:]
        data: bytes = found.decompress(piece)
        if found.eof:
            self._raw = found.unused_data + self._raw
        return data

    def _decoded(self, data: bytes, *, final: bool) -> bytes:
        if self._text is None:
            return data
        return self._text.decode(data, final).encode()
