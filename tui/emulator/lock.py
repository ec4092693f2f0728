"""The lock of a state directory, which one server holds, and the file with the server's addresses."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from tui.emulator.paths import StateDir, StateDirError


class EmulatorBusy(StateDirError):
    """Another server uses this state directory; the message names it."""


class Lock:
    """An flock, which the kernel releases when the process ends."""

    def __init__(self, state: StateDir) -> None:
        self._state = state
        self._fd: int | None = None

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            EmulatorBusy: when a running server holds it.
            StateDirError: when the file can't be created.
        """
        try:
            fd = os.open(self._state.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StateDirError(f"can't use the state directory {self._state.root}: {error}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            holder = os.pread(fd, 20, 0).decode(errors="replace").strip() or "unknown"
            os.close(fd)
            raise EmulatorBusy(
                f"an emulator already runs on {self._state.root} (pid {holder}); "
                f"use it, stop it with `{self._state.COMMAND} stop`, or choose another state directory"
            ) from None
        except OSError as error:
            os.close(fd)
            raise StateDirError(f"can't write {self._state.lock}: {error.strerror}") from error
        self._fd = fd

    @property
    def held(self) -> bool:
        """Whether the locked file still has its name; otherwise another server can lock another file."""
        if self._fd is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._fd), self._state.lock.stat())
        except OSError:
            return False

    def release(self) -> None:
        """Release the lock. The file stays: otherwise two servers could lock two files of one name."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def write_info(state: StateDir, info: dict[str, Any]) -> None:
    """Write `emulator.json` atomically. Raises OSError."""
    partial = state.info.with_suffix(".partial")
    try:
        partial.write_text(json.dumps(info, indent=1) + "\n")
        partial.chmod(0o600)
        partial.replace(state.info)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def hold(lock: Lock, stack: AsyncExitStack, *files: Path) -> None:
    """Take the lock until `stack` is closed, and remove a server's `files` at its start and at its end.

    Raises as `Lock.acquire`.
    """
    lock.acquire()
    stack.callback(lock.release)
    # With the lock held, these files belong to a server that has ended.
    _remove(files)
    stack.callback(lambda: _remove(files) if lock.held else None)


def _remove(paths: Sequence[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
