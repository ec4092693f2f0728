"""Structured log lines: one JSON object a line on stdout, which Cloud Logging turns into a jsonPayload."""

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
"""Longest wait for another process's line: its reader may be slow, or it is stopped and has the lock."""
_NEXT_LOCK_SECONDS = 0.1
"""The same after such a wait in vain."""
_WRITE_SECONDS = 10.0
"""Longest wait for room in a pipe that does not block."""
_threads = threading.RLock()
_in_vain = False
"""Whether the last wait was in vain."""


def _new_lock() -> None:
    """In a forked process: another thread, which does not exist here, may have had the lock."""
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
    # A full disk or a closed pipe costs the line, never the training.
    with _threads, _locked(), contextlib.suppress(OSError):
        _write((json.dumps(line) + "\n").encode())


def end_line() -> None:
    """End the line that a process which has died may have left open: the next one would become part of it.

    If there is none, the log gets an empty line.
    """
    with _threads, _locked(), contextlib.suppress(OSError):
        _write(b"\n")


def _write(data: bytes) -> None:
    """Write all of it: a system call may take only a part."""
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
    """Exclude the other processes that write to the same stdout.

    A pipe takes at most 4096 bytes (PIPE_BUF) at once, and where it is full another process's line gets
    between the parts of a longer one. The lock is on the pipe itself, so all that write to it have it in
    common, whoever started them. It costs two system calls, and ends with its process. Short lines take it
    too: without it one would get into a long line.
    """
    locked = _lock()
    try:
        yield
    finally:
        if locked:
            with contextlib.suppress(OSError):
                fcntl.lockf(_STDOUT, fcntl.LOCK_UN)


def _lock() -> bool:
    """False if stdout can't be locked, or another process keeps the lock."""
    global _in_vain  # noqa: PLW0603 - of this process
    deadline = time.monotonic() + (_NEXT_LOCK_SECONDS if _in_vain else _LOCK_SECONDS)
    while True:
        try:
            fcntl.lockf(_STDOUT, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in {errno.EAGAIN, errno.EACCES}:
                return False
            if time.monotonic() > deadline:
                _in_vain = True
                return False
            time.sleep(0.0005)
        else:
            _in_vain = False
            return True
