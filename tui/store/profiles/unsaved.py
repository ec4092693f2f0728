"""Unsaved changes of one file. Each console stores its own changes, and detects the other consoles that have
the file open. A console with the file open holds an flock, which the kernel releases when the console ends,
even by a crash. Changes belong to their console while it runs; all other changes are offered to the next
console that opens the file. All methods block. If a write fails, a method ignores the error and stores
nothing."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tui.config.paths import write_whole

LOCK_SECONDS = 2.0
"""Seconds to wait for another console that holds the folder's lock."""


@dataclass(frozen=True, slots=True)
class UnsavedCopy:
    """Unsaved changes of a console that ended without saving."""

    text: str
    base: str
    """The file's text when the changes were made."""
    time: datetime
    path: Path
    """The file that stores the changes."""


@dataclass(frozen=True, slots=True)
class Editor:
    """A console that has the file open."""

    pid: int
    host: str
    since: datetime

    @property
    def name(self) -> str:
        """The console as text: `pid 4242`, with the host if the host differs."""
        return f"pid {self.pid}" + (f" on {self.host}" if self.host != socket.gethostname() else "")


class Unsaved:
    """This console's unsaved changes of one file, stored in `folder`."""

    def __init__(self, folder: Path, path: Path) -> None:
        self._folder = folder
        self._stem = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:20]
        self._own = folder / f"{self._stem}-{secrets.token_hex(4)}.json"
        self._fd: int | None = None

    # Open files

    def open(self) -> None:
        """Mark the file as open in this console."""
        note = {"pid": os.getpid(), "host": socket.gethostname(), "since": datetime.now(UTC).isoformat()}
        with contextlib.suppress(OSError), self.lock():
            fd = os.open(_mark(self._own), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.pwrite(fd, json.dumps(note).encode(), 0)
            except OSError:
                os.close(fd)
                raise
            self._fd = fd

    def close(self) -> None:
        """Mark the file as closed. Stored changes are offered to the next console that opens it."""
        if self._fd is not None:
            with contextlib.suppress(OSError):
                _mark(self._own).unlink(missing_ok=True)
            os.close(self._fd)
            self._fd = None

    @property
    def is_open(self) -> bool:
        """Whether the file is open in this console."""
        return self._fd is not None

    def others(self) -> list[Editor]:
        """Return the other consoles that have the file open, in the order of opening."""
        editors = []
        with contextlib.suppress(OSError), self.lock():
            marks = [mark for mark in self._folder.glob(f"{self._stem}-*.open") if mark != _mark(self._own)]
            editors = [_editor(mark) for mark in marks if _is_held(mark)]
        # Ignore another form of this console that is being closed.
        editors = [
            editor for editor in editors if (editor.pid, editor.host) != (os.getpid(), socket.gethostname())
        ]
        return sorted(editors, key=lambda editor: editor.since)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder's lock, or continue after a timeout. Raises OSError for an unusable folder."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(self._folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            deadline = time.monotonic() + LOCK_SECONDS
            while not _try_lock(fd) and time.monotonic() < deadline:
                time.sleep(0.01)
            yield
        finally:
            os.close(fd)

    # Changes

    def write(self, path: Path, text: str, base: str) -> None:
        """Store this console's unsaved changes to a profile."""
        record = {"path": str(path), "base": base, "text": text, "time": datetime.now(UTC).isoformat()}
        with contextlib.suppress(OSError):
            write_whole(self._own, json.dumps(record).encode())

    def delete(self, kept: UnsavedCopy | None = None) -> None:
        """Delete these changes, or this console's own."""
        with contextlib.suppress(OSError):
            (kept.path if kept is not None else self._own).unlink(missing_ok=True)

    def orphans(self) -> list[UnsavedCopy]:
        """Return the changes of consoles that have ended, newest first."""
        copies = []
        with contextlib.suppress(OSError), self.lock():
            for path in self._folder.glob(f"{self._stem}*.json"):
                if path != self._own and not _is_held(_mark(path)):
                    with contextlib.suppress(OSError, ValueError, TypeError, LookupError):
                        raw = json.loads(path.read_bytes())
                        when = datetime.fromisoformat(raw["time"])
                        copies.append(UnsavedCopy(str(raw["text"]), str(raw["base"]), when, path))
        return sorted(copies, key=lambda kept: kept.time, reverse=True)


def _mark(kept: Path) -> Path:
    """Return the lock file of the console with these changes."""
    return kept.with_suffix(".open")


def _try_lock(fd: int) -> bool:
    """Lock the file. Return False if another process has locked it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_held(mark: Path) -> bool:
    """Return whether another process holds the lock. An unheld lock file is deleted."""
    try:
        fd = os.open(mark, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        if not _try_lock(fd):
            return True
        mark.unlink(missing_ok=True)
        return False
    finally:
        os.close(fd)


def _editor(mark: Path) -> Editor:
    try:
        raw = json.loads(mark.read_bytes())
        return Editor(int(raw["pid"]), str(raw["host"]), datetime.fromisoformat(raw["since"]))
    except (OSError, ValueError, TypeError, LookupError):
        return Editor(0, "?", datetime.now(UTC))
