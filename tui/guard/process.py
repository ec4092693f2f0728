"""The guard's process: one for each state directory, started, found and stopped by its lock."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tui.domain.masking import mask_text

START_SECONDS = 30.0
STOP_SECONDS = 15.0
LOCK_SECONDS = 1.0
"""Maximum wait for a start, for an end, and for the lock."""
_POLL = 0.05


class GuardError(Exception):
    """The guard can't be started or stopped. The message gives the reason."""


def guard_folder(state_dir: Path) -> Path:
    """Return the folder of the guard's files: lock, log and record."""
    return state_dir / "guard"


def record_file(state_dir: Path) -> Path:
    """Return the file of the guard's record."""
    return guard_folder(state_dir) / "guard.db"


def log_file(state_dir: Path) -> Path:
    """Return the file of the guard's own log."""
    return guard_folder(state_dir) / "guard.log"


@contextmanager
def guard_lock(state_dir: Path) -> Iterator[Callable[[], None]]:
    """Hold the lock that makes this process the guard. Raises GuardError if another process holds it.

    The process counts as the running guard once it has called the function that this yields. The kernel
    releases the lock when the process ends, however it ends.
    """
    folder = guard_folder(state_dir)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / "lock").open("a+") as file:
        until = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                # `running_guard` holds the lock for a moment.
                if time.monotonic() > until:
                    raise GuardError(f"A guard already runs (pid {running_guard(state_dir)}).") from None
                time.sleep(_POLL)
        file.truncate(0)

        def ready() -> None:
            file.write(str(os.getpid()))
            file.flush()

        yield ready


def running_guard(state_dir: Path) -> int | None:
    """Return the process id of the running guard; `None` if none runs."""
    try:
        with (guard_folder(state_dir) / "lock").open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                # The file is empty until the guard is ready.
                return int(file.read()) or None
    except (OSError, ValueError):
        pass
    return None


def start_guard(state_dir: Path) -> int:
    """Start the guard in a session of its own and return its process id (blocking). Raises GuardError."""
    folder = guard_folder(state_dir)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with log_file(state_dir).open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tui.guard.main"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
        )
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            if (other := running_guard(state_dir)) is not None:
                return other
            raise GuardError(f"The guard ended at once: {_last_line(log_file(state_dir))}")
        if running_guard(state_dir) == process.pid:
            return process.pid
        time.sleep(_POLL)
    process.kill()
    raise GuardError(f"The guard was not ready within {START_SECONDS:.0f} s. Its log: {log_file(state_dir)}")


def _last_line(file: Path) -> str:
    """Return the last line of a log with its file."""
    with file.open("rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - 2_000))
        lines = log.read().decode(errors="replace").strip().splitlines()
    return f"{mask_text(lines[-1]) if lines else 'no reason'} (log: {file})"


def stop_guard(state_dir: Path) -> bool:
    """Stop the guard and wait until it has ended (blocking). Return False if none runs. Raises GuardError."""
    pid = running_guard(state_dir)
    if pid is None:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + STOP_SECONDS
    while running_guard(state_dir) == pid:
        if time.monotonic() > until:
            raise GuardError(f"The guard (pid {pid}) did not end within {STOP_SECONDS:.0f} s.")
        time.sleep(_POLL)
    return True
