"""Holes in a file that another process appends to: bytes that read as zeros and occupy no disk space.

Offsets and the size are unchanged, so neither the writer nor a reader behind the hole notices it. ext4, xfs,
btrfs, tmpfs and overlayfs support holes.
"""

from __future__ import annotations

import ctypes
import errno
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

_BLOCK = 4096
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
"""Modes of fallocate(2), from `linux/falloc.h`."""


def punch_hole(path: Path, end: int) -> int:
    """Free the complete blocks before offset `end`. Return the end of the hole.

    Raises OSError, including EOPNOTSUPP if the file system does not support holes.
    """
    end -= end % _BLOCK
    if end <= 0:
        return 0
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        before = os.fstat(file)
        if _fallocate()(file, _KEEP_SIZE | _PUNCH_HOLE, 0, end):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(path))
        if os.fstat(file).st_size == before.st_size:
            # Restore the time of the last write, which dates the file's lines.
            os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    finally:
        os.close(file)
    return end


def hole_end(file: int, offset: int, size: int) -> int:
    """Return the end of the hole at `offset`, or `offset` itself outside of a hole. Raises OSError."""
    try:
        return os.lseek(file, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            # Only a hole follows.
            return size
        if error.errno == errno.EINVAL:
            # The file system has no holes.
            return offset
        raise


@lru_cache(maxsize=1)
def _fallocate() -> Any:
    fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    return fallocate
