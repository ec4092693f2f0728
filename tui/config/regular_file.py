"""Reads files that a user, a script or a reply names: only regular files, and only up to a limit.

A pipe or a device in place of a file would never end, or block.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path, limit: int = sys.maxsize) -> BinaryIO:
    """Open a regular file of at most `limit` bytes. Raises OSError."""
    # Opening a pipe without a writer would block.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            code = errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.EINVAL
            raise OSError(code, "it must be a file, not a pipe, a device or a folder", str(path))
        if status.st_size > limit:
            raise _too_large(path, limit)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, limit: int) -> bytes:
    """Return the content of a regular file of at most `limit` bytes. Raises OSError."""
    with open_regular(path, limit) as file:
        # A file of /proc has no size, and any file may grow.
        content = file.read(limit + 1)
    if len(content) > limit:
        raise _too_large(path, limit)
    return content


def _too_large(path: Path, limit: int) -> OSError:
    return OSError(errno.EFBIG, f"it has more than {limit:,} bytes", str(path))
