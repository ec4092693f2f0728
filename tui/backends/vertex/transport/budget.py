"""Google's quotas of a project, shared by all consoles and verbs of this machine.

A project may make 60 log reads a minute and have 10 open tails, counted over all its callers
(docs/facts/vertex.md 5.3). Each project has a folder with a file of the last granted reads, used under a
lock, and a file for each tail. The tail's holder locks its file, so that a process that dies releases its
tails. If the folder can't be used, each process applies the limits on its own.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import logging
import os
import struct
import time
from pathlib import Path
from urllib.parse import quote

from tui.backends.vertex.transport.retry import RateLimiter
from tui.config.boot import boot_id

log = logging.getLogger(__name__)

TAILS = 10
PERIOD = 60.0
LOCK_TRIES, LOCK_PAUSE = 100, 0.01
"""Number of attempts to lock the file, and seconds between them: locks last only microseconds."""
AHEAD = 5
"""Maximum number of periods ahead that a read may be granted. A later time was written before a reboot."""
_HEAD = struct.Struct("<q16s")
_TIME = struct.Struct("<d")


class Lease:
    """One of the project's tails, released by `release` or when the process exits."""

    def __init__(self, file: int = -1) -> None:
        self._file = file

    def release(self) -> None:
        """Release the tail. Idempotent."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class Budget:
    """Reads and tails of one project. `folder` is `None` for a budget of only this process."""

    def __init__(
        self, folder: Path | None, reads: int, *, period: float = PERIOD, tails: int = TAILS
    ) -> None:
        self._folder = folder
        self._reads = reads
        self._period = period
        self._tails = tails
        self._alone = RateLimiter(reads, period)

    async def wait(self) -> None:
        """Wait until a read may be sent. Callers are served in order of arrival."""
        seconds = await self._reserve()
        if seconds > 0:
            await asyncio.sleep(seconds)

    def lease(self) -> Lease | None:
        """Return a lease of one tail, or `None` while all tails are used."""
        if self._folder is None:
            return Lease()
        for number in range(self._tails):
            try:
                file = self._open(f"tail-{number}")
            except OSError as error:
                self._complain(error)
                return Lease()
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(file)
            else:
                return Lease(file)
        return None

    async def _reserve(self) -> float:
        """Reserve a read. Return the seconds until it may be sent."""
        if self._folder is not None:
            try:
                file = self._open(f"reads-{self._reads}")
                try:
                    if await _locked(file):
                        return self._take(file)
                finally:
                    # This also releases the lock.
                    os.close(file)
            except OSError as error:
                self._complain(error)
        return self._alone.reserve(time.monotonic())

    def _take(self, file: int) -> float:
        """Replace the oldest grant with a new one and return its time.

        The file contains the next index of the ring, the boot id, and the ring of monotonic times.
        """
        now, name = time.monotonic(), boot_id()
        boot = hashlib.sha256(name.encode()).digest()[:16]
        place, before = self._oldest(file, boot)
        if not name and before > now + AHEAD * self._period:
            os.ftruncate(file, 0)
            place, before = 0, 0.0
        at = max(now, before + self._period) if before else now
        os.pwrite(file, _TIME.pack(at), _HEAD.size + place * _TIME.size)
        os.pwrite(file, _HEAD.pack((place + 1) % self._reads, boot), 0)
        return at - now

    def _oldest(self, file: int, boot: bytes) -> tuple[int, float]:
        """Return the index and time of the oldest grant, or 0 if there is none. Grants of another boot are
        removed."""
        head = os.pread(file, _HEAD.size, 0)
        place, said_boot = _HEAD.unpack(head) if len(head) == _HEAD.size else (0, b"")
        if said_boot != boot or not 0 <= place < self._reads:
            os.ftruncate(file, 0)
            return 0, 0.0
        stored = os.pread(file, _TIME.size, _HEAD.size + place * _TIME.size)
        return place, _TIME.unpack(stored)[0] if len(stored) == _TIME.size else 0.0

    def _open(self, name: str) -> int:
        assert self._folder is not None
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _complain(self, error: OSError) -> None:
        log.warning("%s can't be used, so this process applies the limits by itself: %s", self._folder, error)
        self._folder = None


async def _locked(file: int) -> bool:
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            await asyncio.sleep(LOCK_PAUSE)
        else:
            return True
    log.warning("another process keeps holding the lock of the log reads")
    return False


_budgets: dict[tuple[Path | None, str, int], Budget] = {}


def budget_of(folder: Path | None, target: str, project: str, reads: int) -> Budget:
    """Return the shared budget of one project of the service at `target`, with `reads` a minute."""
    scope = f"{target}/{project}"
    known = _budgets.get((folder, scope, reads))
    if known is None:
        known = Budget(None if folder is None else folder / quote(project, safe=""), reads)
        _budgets[folder, scope, reads] = known
    return known
