"""A lock on a folder of checkpoints: a second job there is refused by the name of the first one's run.

The file `.lock` names the owner. `flock` decides between processes of one machine: the kernel frees it when
its owner dies. Other machines may not see it: NFS may be mounted without locks, and Cloud Storage FUSE has
none (https://cloud.google.com/storage/docs/gcs-fuse, limitations; when it writes: docs/semantics.md of its
repository). So an owner also writes a counter every few seconds, and an owner on another machine whose
counter stands still for long enough has ended. A restart of the same launch waits for nothing.

Between two attempts no process of a launch has the lock. So its supervisor has a file of its own beside it,
`.launch-*`, with a lock and a counter of the same kind: an owner whose launch lives keeps the folder.

Two jobs on two machines that begin within one look of each other can both take the folder where `flock` does
not reach. Then the file has the later one's name, and the saves of the earlier one fail with it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trainer.errors import CheckpointError

LOCK = ".lock"
HEARTBEAT = 5.0
"""Seconds between two increments of an owner's counter."""
_END_OF_PROCESSES = 3.0
"""Seconds in which the processes of an owner on this machine that was killed have ended."""
_SILENCE = 45.0
"""Seconds after which an owner on another machine whose counter stands still has ended."""
_FUSE_SILENCE = 90.0
"""The same through FUSE: Cloud Storage FUSE may show a file as it was 60 s ago (metadata-cache: ttl-secs)."""
_BEING_WRITTEN = 2.0
"""Seconds in which a text that can't be read may be one that its owner writes."""
_END_OF_HOLD = 1.0
"""Seconds for the removal of a launch's file."""
_own_keys: set[str] = set()
"""Keys of the locks that this process has."""


@dataclass(frozen=True, slots=True)
class FolderOwner:
    """Who has the folder.

    `launches` are the ids of its nodes' launches, `machine` is a booted kernel and a mount in it, `key` is
    random, `beat` counts up while it lives. `released`: it has ended properly.
    """

    run: str
    launches: list[str]
    host: str
    pid: int
    machine: str
    since: str
    key: str
    beat: int = 0
    released: bool = False

    def __str__(self) -> str:
        return f"run {self.run} (process {self.pid} on {self.host}, since {self.since})"


class FolderLock:
    """The lock of one rank that writes to the folder. `poll` until it is true, then see `problem`."""

    def __init__(self, folder: Path, launches: Sequence[str]) -> None:
        self._path = folder / LOCK
        self.problem: str | None = None
        """Why this process does not have the folder."""
        self.refused = False
        """Whether the problem is another job."""
        self.previous: FolderOwner | None = None
        """The owner before this one."""
        self._owner = FolderOwner(
            launches[0], list(launches), socket.gethostname(), os.getpid(), "",
            datetime.now(UTC).isoformat(timespec="seconds"), secrets.token_hex(8),
        )  # fmt: skip
        self._file: int | None = None
        self._began = time.monotonic()
        self._first_beats: tuple[int | str, ...] | None = None
        self._locked, self._kernel_decides = False, True
        """`flock`; false for the second where the file system has no such locks."""
        self._stop, self._writing = threading.Event(), threading.Lock()

    def poll(self) -> bool:
        """Whether it is known who has the folder. It neither waits nor raises."""
        try:
            if self._file is None:
                self._open()
            return self._decide()
        except OSError as error:
            self.problem = f"can't lock {self._path}: {error.strerror or error}"
            return True

    def name_run(self, run_id: str) -> None:
        """Tell others which run this is."""
        if self._owner.key in _own_keys:
            self._write(run=run_id)

    def name_launches(self, launches: Sequence[str]) -> None:
        """Another node of these launches may take the folder after this one."""
        if self._owner.key in _own_keys and self._owner.launches != list(launches):
            self._write(launches=list(launches))

    def check(self) -> None:
        """Raises CheckpointError if another job has taken the folder since."""
        now = _read(self._path)
        if now is not None and not now.released and now.key not in _own_keys:
            raise CheckpointError(f"{self._path.parent} was taken by {now}")

    def release(self) -> None:
        """The next owner need not wait."""
        self._stop.set()
        if self._owner.key in _own_keys:
            self._write(released=True)
            _own_keys.discard(self._owner.key)
        with self._writing:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        boot = Path("/proc/sys/kernel/random/boot_id")
        machine = f"{boot.read_text().strip()}/{os.fstat(self._file).st_dev}"
        self._owner = replace(self._owner, machine=machine)

    def _decide(self) -> bool:
        found, waited = _read(self._path), time.monotonic() - self._began
        if found is not None and found.key in _own_keys:
            # An earlier lock of this process, which keeps the counter.
            self.previous = found
            return True
        self._locked = self._locked or self._flock()
        if found is None and self._is_written() and waited < _BEING_WRITTEN:
            return False
        own_launch = found is not None and self._is_own(found)
        launches = [] if found is None or own_launch else self._launches_of(found)
        if found is None or (found.released and not launches):
            return self._take(found) if self._locked else self._refuse_after(_END_OF_PROCESSES, waited, found)
        here = self._kernel_decides and found.machine == self._owner.machine
        if self._locked and (own_launch or (here and not any(map(_is_locked, launches)))):
            return self._take(found)
        if own_launch and waited > _END_OF_PROCESSES:
            # The lock of a node that was lost outlives it on the file server.
            return self._take(found)
        if here:
            return self._refuse_after(_END_OF_PROCESSES, waited, found)
        beats: tuple[int | str, ...] = (found.beat, *(_text(path) for path in launches))
        if self._first_beats is None:
            self._first_beats = beats
        if beats != self._first_beats and not own_launch:
            return self._refuse_after(0.0, waited, found)
        if waited <= (_FUSE_SILENCE if _through_fuse(self._path) else _SILENCE):
            return False
        return self._take(found) if self._locked else self._refuse_after(0.0, waited, found)

    def _is_own(self, owner: FolderOwner) -> bool:
        """Whether the owner is of the same launch."""
        return not set(owner.launches).isdisjoint(self._owner.launches)

    def _launches_of(self, owner: FolderOwner) -> list[Path]:
        """The files of the owner's launches whose supervisors have not ended properly."""
        paths = [self._path.with_name(_launch_file(launch)) for launch in owner.launches]
        return [path for path in paths if path.exists()]

    def _flock(self) -> bool:
        assert self._file is not None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            # This file system has no locks; the counter decides alone.
            self._kernel_decides = False
        return True

    def _refuse_after(self, seconds: float, waited: float, owner: FolderOwner | None) -> bool:
        if waited < seconds:
            return False
        self.refused = True
        self.problem = (
            f"--checkpoint-dir {self._path.parent} is in use by {owner or 'another process'}: two jobs in "
            "one folder would overwrite each other's checkpoints. Give this one another --checkpoint-dir, or "
            "end that one"
        )
        return True

    def _take(self, previous: FolderOwner | None) -> bool:
        self.previous = previous
        if previous is not None and not self._is_own(previous):
            for path in self._launches_of(previous):
                path.unlink(missing_ok=True)
        _own_keys.add(self._owner.key)
        self._write()
        threading.Thread(target=self._beat, name="folder lock", daemon=True).start()
        return True

    def _beat(self) -> None:
        while not self._stop.wait(HEARTBEAT):
            now = _read(self._path)
            if now is not None and now.key != self._owner.key:
                return
            self._write(beat=self._owner.beat + 1)

    def _write(self, **changes: Any) -> None:
        """In place: a new file would not have the lock, and a full disk has room for what is there.

        With a descriptor of its own: Cloud Storage FUSE writes to the bucket when one is closed.
        """
        # A disk that takes no more is reported by the next save.
        with self._writing, suppress(OSError):
            if self._file is None:
                return
            self._owner = replace(self._owner, **changes)
            text = json.dumps(asdict(self._owner)).encode()
            with self._path.open("rb+") as file:
                file.write(text)
                file.truncate()
                file.flush()
                os.fsync(file.fileno())

    def _is_written(self) -> bool:
        return self._file is not None and os.fstat(self._file).st_size > 0


def _read(path: Path) -> FolderOwner | None:
    """None if there is none, or if it is being written."""
    try:
        return FolderOwner(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def _through_fuse(path: Path) -> bool:
    """Whether the file is in a file system of a process of this machine."""
    best, kind = "", ""
    with suppress(OSError):
        resolved = f"{path.resolve().parent}/"
        for line in Path("/proc/self/mounts").read_text().splitlines():
            _, mount, found, *_ = line.split()
            if resolved.startswith(f"{mount.rstrip('/')}/") and len(mount) >= len(best):
                best, kind = mount, found
    return kind.startswith("fuse")


class LaunchHold:
    """A supervisor's hold on the folder of its launch, also while none of its processes runs.

    A thread does all of it: the folder may be on a disk that does not answer. What it can't do is left out:
    the processes report a folder that can't be used.
    """

    def __init__(self, folder: Path, launch: str) -> None:
        self._path = folder / _launch_file(launch)
        self._file: int | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._hold, name="launch hold", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """The launch has ended: the next owner need not wait."""
        self._stop.set()
        self._thread.join(_END_OF_HOLD)

    def _hold(self) -> None:
        beat = 0
        while True:
            with suppress(OSError):
                self._lock()
                beat += 1
                # In place: a full disk has room for what is there.
                with self._path.open("rb+") as file:
                    file.write(b"%012d" % beat)
            if self._stop.wait(HEARTBEAT):
                break
        with suppress(OSError):
            self._remove()

    def _lock(self) -> None:
        """Other nodes of the launch here have the same file; the first to end may have deleted it."""
        if self._file is not None and self._path.exists() and _is_at(self._file, self._path):
            return
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        # Another job's look at it takes no time. Where there are no such locks the counter decides alone.
        with suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_SH)

    def _remove(self) -> None:
        if self._file is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._path.unlink(missing_ok=True)
        finally:
            os.close(self._file)
            self._file = None


def _launch_file(launch: str) -> str:
    """A launch's id may have any characters."""
    return f".launch-{hashlib.sha256(launch.encode()).hexdigest()[:16]}"


def _is_locked(path: Path) -> bool:
    """Whether a supervisor on this machine has this file of its launch."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _is_at(descriptor: int, path: Path) -> bool:
    return os.path.samestat(os.fstat(descriptor), path.stat())


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""
