"""A lock on a checkpoint folder, which refuses a second job with an error that names the first job's run.

The file `.lock` names the owner. `flock` decides between processes of one machine: the kernel releases the
lock when its owner dies. Other machines may not see the lock, because NFS may be mounted without locks, and
Cloud Storage FUSE has none (https://cloud.google.com/storage/docs/gcs-fuse, limitations; docs/semantics.md of
its repository describes its writes). Therefore, an owner also increments a counter every few seconds. An
owner on another machine whose counter does not change for `_SILENCE` seconds has ended. A restart of the same
launch never waits.

Between attempts no process of a launch holds the lock. Therefore, the supervisor holds a file `.launch-*`
next to it, with the same kind of lock and counter: the folder stays with an owner whose launch still runs.

Two jobs on two machines that check at the same moment can both take the folder where `flock` does not work.
Then the file names the later job, and the earlier job's saves fail with that name.
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
"""Seconds between increments of an owner's counter."""
_END_OF_PROCESSES = 3.0
"""Seconds in which the processes of a killed owner on this machine end."""
_SILENCE = 45.0
"""Seconds without progress of its counter after which an owner on another machine is considered ended."""
_FUSE_SILENCE = 90.0
"""`_SILENCE` through Cloud Storage FUSE, which caches a file's state for up to 60 s (metadata-cache:
ttl-secs)."""
_BEING_WRITTEN = 2.0
"""Seconds during which an unreadable file may still be incomplete because its owner is writing it."""
_END_OF_HOLD = 1.0
"""Seconds to wait for the removal of a launch's file."""
_own_keys: set[str] = set()
"""Keys of the locks that this process holds."""


@dataclass(frozen=True, slots=True)
class FolderOwner:
    """The owner of a folder.

    `launches` are the ids of its nodes' launches, `machine` identifies a booted kernel and a mount, `key` is
    random, and `beat` is the counter that increases while the owner runs. `released` is true after a clean
    end.
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
    """One rank's lock on the folder it writes to. Call `poll` until it returns true, then read `problem`."""

    def __init__(self, folder: Path, launches: Sequence[str]) -> None:
        self._path = folder / LOCK
        self.problem: str | None = None
        """Why this process does not hold the folder; None while it holds the folder."""
        self.refused = False
        """Whether another job holds the folder."""
        self.previous: FolderOwner | None = None
        """The previous owner of the folder."""
        self._owner = FolderOwner(
            launches[0],
            list(launches),
            socket.gethostname(),
            os.getpid(),
            "",
            datetime.now(UTC).isoformat(timespec="seconds"),
            secrets.token_hex(8),
        )
        self._file: int | None = None
        self._began = time.monotonic()
        self._first_beats: tuple[int | str, ...] | None = None
        self._locked, self._kernel_decides = False, True
        """Whether this process holds the `flock`, and whether the file system supports it."""
        self._stop, self._writing = threading.Event(), threading.Lock()

    def poll(self) -> bool:
        """Return whether the folder has an owner now, which may be another process. The method neither blocks
        nor raises."""
        try:
            if self._file is None:
                self._open()
            return self._decide()
        except OSError as error:
            self.problem = f"can't lock {self._path}: {error.strerror or error}"
            return True

    def name_run(self, run_id: str) -> None:
        """Write the run's id to the file, for other jobs."""
        if self._owner.key in _own_keys:
            self._write(run=run_id)

    def name_launches(self, launches: Sequence[str]) -> None:
        """Allow the other nodes of these launches to take the folder when this process ends."""
        if self._owner.key in _own_keys and self._owner.launches != list(launches):
            self._write(launches=list(launches))

    def check(self) -> None:
        """Raise CheckpointError if another job has taken the folder."""
        now = _read(self._path)
        if now is not None and not now.released and now.key not in _own_keys:
            raise CheckpointError(f"{self._path.parent} was taken by {now}")

    def release(self) -> None:
        """Release the folder, so that the next owner need not wait."""
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
        owner, waited = _read(self._path), time.monotonic() - self._began
        if owner is not None and owner.key in _own_keys:
            # An earlier lock of this process has this file; that lock increments the counter.
            self.previous = owner
            return True
        self._locked = self._locked or self._flock()
        if owner is None and self._is_written() and waited < _BEING_WRITTEN:
            return False
        own_launch = owner is not None and self._is_own(owner)
        launches = [] if owner is None or own_launch else self._launches_of(owner)
        if owner is None or (owner.released and not launches):
            return self._take(owner) if self._locked else self._refuse_after(_END_OF_PROCESSES, waited, owner)
        here = self._kernel_decides and owner.machine == self._owner.machine
        if self._locked and (own_launch or (here and not any(map(_is_locked, launches)))):
            return self._take(owner)
        if own_launch and waited > _END_OF_PROCESSES:
            # On a file server the lock of a lost node stays for a while.
            return self._take(owner)
        if here:
            return self._refuse_after(_END_OF_PROCESSES, waited, owner)
        beats: tuple[int | str, ...] = (owner.beat, *(_text(path) for path in launches))
        if self._first_beats is None:
            self._first_beats = beats
        if beats != self._first_beats and not own_launch:
            return self._refuse_after(0.0, waited, owner)
        if waited <= (_FUSE_SILENCE if _through_fuse(self._path) else _SILENCE):
            return False
        return self._take(owner) if self._locked else self._refuse_after(0.0, waited, owner)

    def _is_own(self, owner: FolderOwner) -> bool:
        """Return whether the owner belongs to the same launch."""
        return not set(owner.launches).isdisjoint(self._owner.launches)

    def _launches_of(self, owner: FolderOwner) -> list[Path]:
        """Return the files of the owner's launches whose supervisors did not end cleanly."""
        paths = [self._path.with_name(_launch_file(launch)) for launch in owner.launches]
        return [path for path in paths if path.exists()]

    def _flock(self) -> bool:
        assert self._file is not None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            # This file system has no locks: only the counter decides.
            self._kernel_decides = False
        return True

    def _refuse_after(self, seconds: float, waited: float, owner: FolderOwner | None) -> bool:
        if waited < seconds:
            return False
        self.refused = True
        self.problem = (
            f"--checkpoint-dir {self._path.parent} is in use by {owner or 'another process'}: two "
            "jobs in one folder would overwrite each other's checkpoints. Give this job another "
            "--checkpoint-dir, or end the other job"
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
        """Write in place, because a new file would not have the lock, and a full disk still has room for the
        existing bytes.

        Open the file for each write, because Cloud Storage FUSE writes to the bucket when a descriptor is
        closed.
        """
        # The disk is full: the next save reports it.
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
    """Return the owner in this file, or None if the file is missing, or is being written."""
    try:
        return FolderOwner(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def _through_fuse(path: Path) -> bool:
    """Return whether the file is on a FUSE mount."""
    best, kind = "", ""
    with suppress(OSError):
        resolved = f"{path.resolve().parent}/"
        for line in Path("/proc/self/mounts").read_text().splitlines():
            _, mount, filesystem, *_ = line.split()
            if resolved.startswith(f"{mount.rstrip('/')}/") and len(mount) >= len(best):
                best, kind = mount, filesystem
    return kind.startswith("fuse")


class LaunchHold:
    """A supervisor's lock on its checkpoint folder, which it holds even while no training process runs.

    A thread does the file operations, because the disk may not answer. The thread ignores errors: the
    training processes report an unusable folder.
    """

    def __init__(self, folder: Path, launch: str) -> None:
        self._path = folder / _launch_file(launch)
        self._file: int | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._hold, name="launch hold", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Release the hold after the launch has ended, so that the next owner need not wait."""
        self._stop.set()
        self._thread.join(_END_OF_HOLD)

    def _hold(self) -> None:
        beat = 0
        while True:
            with suppress(OSError):
                self._lock()
                beat += 1
                # Write in place: a full disk has room for the present bytes.
                with self._path.open("rb+") as file:
                    file.write(b"%012d" % beat)
            if self._stop.wait(HEARTBEAT):
                break
        with suppress(OSError):
            self._remove()

    def _lock(self) -> None:
        """Lock the file that all supervisors of the launch on this machine share; another supervisor may have
        deleted it."""
        if self._file is not None and self._path.exists() and _is_at(self._file, self._path):
            return
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        # Another job holds the lock only for a moment. On a file system without `flock` only the counter
        # decides.
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
    """Return the file of this launch, named by a hash because the id may contain any characters."""
    return f".launch-{hashlib.sha256(launch.encode()).hexdigest()[:16]}"


def _is_locked(path: Path) -> bool:
    """Return whether a supervisor on this machine holds this file of its launch."""
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
