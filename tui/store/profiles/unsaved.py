"""Unsaved work on one file: each console keeps its own, and knows who else has the file open.

A console that has the file open holds an flock, which the kernel drops however the console ends. So work
whose console lives is that console's alone, and all other work is for whoever opens the file next. Methods
here are blocking. A disk that takes nothing is no reason to stop: nothing is kept or known then.
"""

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

PATIENCE = 2.0
"""Seconds to wait for another console that is at the same folder just now."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Unsaved work that was found: of a console that ended without saving."""

    text: str
    base: str
    """What the file held when it was edited."""
    time: datetime
    at: Path
    """Where it is kept."""


@dataclass(frozen=True, slots=True)
class Editor:
    """A console that has the file open."""

    pid: int
    host: str
    since: datetime

    @property
    def name(self) -> str:
        """`pid 4242`, with the host where it is another one."""
        return f"pid {self.pid}" + (f" on {self.host}" if self.host != socket.gethostname() else "")


class Unsaved:
    """One console's part in what is kept of one file, in `folder`."""

    def __init__(self, folder: Path, path: Path) -> None:
        self._folder = folder
        self._stem = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:20]
        self._own = folder / f"{self._stem}-{secrets.token_hex(4)}.json"
        self._fd: int | None = None

    # Who has it open

    def come(self) -> None:
        """This console has the file open from now on."""
        note = {"pid": os.getpid(), "host": socket.gethostname(), "since": datetime.now(UTC).isoformat()}
        with contextlib.suppress(OSError), self.alone():
            fd = os.open(_mark(self._own), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.pwrite(fd, json.dumps(note).encode(), 0)
            except OSError:
                os.close(fd)
                raise
            self._fd = fd

    def go(self) -> None:
        """It has not any more; what it keeps is for the next one."""
        if self._fd is not None:
            with contextlib.suppress(OSError):
                _mark(self._own).unlink(missing_ok=True)
            os.close(self._fd)
            self._fd = None

    @property
    def here(self) -> bool:
        """This console has it open."""
        return self._fd is not None

    def others(self) -> list[Editor]:
        """Which other consoles have it open, the longest first."""
        found = []
        with contextlib.suppress(OSError), self.alone():
            marks = [mark for mark in self._folder.glob(f"{self._stem}-*.open") if mark != _mark(self._own)]
            found = [_editor(mark) for mark in marks if _lives(mark)]
        # A form of this console that is being closed is nobody else.
        found = [
            editor for editor in found if (editor.pid, editor.host) != (os.getpid(), socket.gethostname())
        ]
        return sorted(found, key=lambda editor: editor.since)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """No other console opens, saves or looks meanwhile; one that does not let go is not waited for.

        Raises:
            OSError: where the folder can't be used.
        """
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(self._folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            deadline = time.monotonic() + PATIENCE
            while not _take(fd) and time.monotonic() < deadline:
                time.sleep(0.01)
            yield
        finally:
            os.close(fd)

    # Work

    def write(self, path: Path, text: str, base: str) -> None:
        """Keep this console's work."""
        found = {"path": str(path), "base": base, "text": text, "time": datetime.now(UTC).isoformat()}
        with contextlib.suppress(OSError):
            write_whole(self._own, json.dumps(found).encode())

    def drop(self, kept: Kept | None = None) -> None:
        """This work, or this console's own, is not needed any more."""
        with contextlib.suppress(OSError):
            (kept.at if kept is not None else self._own).unlink(missing_ok=True)

    def left(self) -> list[Kept]:
        """Work of consoles that have ended, the newest first."""
        found = []
        with contextlib.suppress(OSError), self.alone():
            for at in self._folder.glob(f"{self._stem}*.json"):
                if at != self._own and not _lives(_mark(at)):
                    with contextlib.suppress(OSError, ValueError, TypeError, LookupError):
                        raw = json.loads(at.read_bytes())
                        when = datetime.fromisoformat(raw["time"])
                        found.append(Kept(str(raw["text"]), str(raw["base"]), when, at))
        return sorted(found, key=lambda kept: kept.time, reverse=True)


def _mark(kept: Path) -> Path:
    """The file that the console of this work holds."""
    return kept.with_suffix(".open")


def _take(fd: int) -> bool:
    """Lock it, unless somebody else has."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lives(mark: Path) -> bool:
    """Somebody holds it; a mark that nobody holds is taken away."""
    try:
        fd = os.open(mark, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        if not _take(fd):
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
