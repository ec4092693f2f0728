"""Structured log lines: one JSON object per line on stdout; Cloud Logging stores it as jsonPayload."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import math
import os
import select
import threading
import time
from collections.abc import Iterator
from typing import Any

_STDOUT = 1
_LOCK_SECONDS = 30.0
"""Maximum wait for another process's line, in seconds: its reader may be slow, or the process suspended."""
_NEXT_LOCK_SECONDS = 0.1
"""Maximum wait for the lock after the previous wait failed, in seconds."""
_WRITE_SECONDS = 10.0
"""Maximum wait for room in a non-blocking pipe, in seconds."""
_threads = threading.RLock()
_wait_failed = False
"""Whether the last wait for the lock failed."""


def _new_lock() -> None:
    """Replace the lock in a forked process, because a thread of the parent may have held it."""
    global _threads  # noqa: PLW0603 - the lock of this process
    _threads = threading.RLock()


os.register_at_fork(after_in_child=_new_lock)


def emit(kind: str, message: str, *, severity: str = "INFO", **fields: Any) -> None:
    """Write one line; lines of several processes and threads do not interleave.

    `fields` are in SI units, below `"vxtui"`; the platform reads the time keys (docs/facts/vertex.md 5.1).
    """
    now = time.time_ns()
    fields = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in fields.items()}
    line = {
        "severity": severity,
        "message": message,
        "timestampSeconds": now // 1_000_000_000,
        "timestampNanos": now % 1_000_000_000,
        "vxtui": {"kind": kind, **fields},
    }
    # A full disk or a closed pipe loses the line, and never ends the training.
    with _threads, _locked(), contextlib.suppress(OSError):
        _write((json.dumps(line) + "\n").encode())


def end_line() -> None:
    """End a line that a dead process may have left incomplete, so that the next line is separate. Without an
    incomplete line, the log gets an empty line."""
    with _threads, _locked(), contextlib.suppress(OSError):
        _write(b"\n")


def _write(data: bytes) -> None:
    """Write all bytes, because a system call may write only some of them."""
    deadline = time.monotonic() + _WRITE_SECONDS
    while data:
        try:
            data = data[os.write(_STDOUT, data) :]
        except BlockingIOError:
            left = deadline - time.monotonic()
            if left <= 0:
                raise
            select.select([], [_STDOUT], [], left)


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """Exclude other processes that write to the same stdout.

    A pipe accepts at most 4096 bytes (PIPE_BUF) atomically; when it is full, another process's line gets
    between the parts of a longer line. The lock is on the pipe itself, so all its writers share it. The lock
    costs two system calls, and ends with the process. Short lines need it too: otherwise they could get into
    a long line.
    """
    locked = _lock()
    try:
        yield
    finally:
        if locked:
            with contextlib.suppress(OSError):
                fcntl.lockf(_STDOUT, fcntl.LOCK_UN)


def _lock() -> bool:
    """Lock stdout; return False if it can't be locked, or another process holds the lock for too long."""
    global _wait_failed  # noqa: PLW0603 - of this process
    deadline = time.monotonic() + (_NEXT_LOCK_SECONDS if _wait_failed else _LOCK_SECONDS)
    while True:
        try:
            fcntl.lockf(_STDOUT, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in {errno.EAGAIN, errno.EACCES}:
                return False
            if time.monotonic() > deadline:
                _wait_failed = True
                return False
            time.sleep(0.0005)
        else:
            _wait_failed = False
            return True
