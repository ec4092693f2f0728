"""Files of one emulator, in a directory that only its user may enter.

The module uses only the standard library, because the runner and the command line import it without gRPC.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

SOCKET_LIMIT = 100
"""Maximum usable path length of a Unix socket, in bytes; the kernel's own limit is 107."""

_SHORT_FOLDER = Path(f"/tmp/vxtui-{os.getuid()}")
"""Folder of the sockets of state directories whose paths are too long. A server outlives
XDG_RUNTIME_DIR."""


class StateDirError(Exception):
    """The state directory can't be used. The message names the directory, the reason and the remedy."""


class FileIn:
    """A file or folder of a directory: an attribute of the class that has the directory as `root`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, directory: StateDir | AttemptDir, owner: type) -> Path:
        return directory.root / self._name


@dataclass(frozen=True, slots=True)
class StateDir:
    """Paths under one state directory.

    The sockets are in a folder in /tmp if their paths would be too long.

    Layout::

        emulator.lock            locked (flock) by the server while it runs
        emulator.json            pid, socket, rest, state_dir, started_at; written when ready
        emulator.sock            the gRPC endpoint
        admin.sock               another name of the same socket, which faults don't affect
        emulator.log             the server's own log
        config.yaml              settings of this emulator, if any
        token                    bearer token of the REST endpoint
        gcloud/                  configuration of gcloud in the environment of `vxtui emulator gcloud`
        state.db                 jobs, pipelines, models, endpoints, operations (only the server writes)
        logs.db                  log entries and read offsets (only the server writes)
        buckets/BUCKET/…         files of gs://BUCKET and /gcs/BUCKET
        buckets.db               other metadata of buckets and objects
        buckets.json             port and secret of the bucket server
        serving/P/L/ENDPOINT/ID/ working directory of a deployed model's server
        jobs/ID/attempt-N/       one run of the entire job, see `AttemptDir`
    """

    root: Path

    MODULE: ClassVar[str] = "tui.emulator"
    """Module that `python -m` runs as the server of this directory."""
    COMMAND: ClassVar[str] = "vxtui emulator"
    """Verbs that start and stop the server."""

    lock = FileIn("emulator.lock")
    info = FileIn("emulator.json")
    log = FileIn("emulator.log")
    config = FileIn("config.yaml")
    token = FileIn("token")
    gcloud_config = FileIn("gcloud")
    database = FileIn("state.db")
    log_database = FileIn("logs.db")
    buckets = FileIn("buckets")
    bucket_database = FileIn("buckets.db")
    bucket_address = FileIn("buckets.json")

    def bucket_port_and_key(self) -> tuple[int, str] | None:
        """Return the port and secret of the last bucket server, or `None` before the first start."""
        try:
            address = json.loads(self.bucket_address.read_bytes())
            return int(address["port"]), str(address["key"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def bucket_url(self) -> str | None:
        """Return the base address of the last bucket server for clients, or `None` before the first start."""
        address = self.bucket_port_and_key()
        return url_of_buckets(*address) if address else None

    def job(self, job_id: str) -> Path:
        """Return the directory of one job's attempts."""
        return self.root / "jobs" / job_id

    def attempt(self, job_id: str, attempt: int) -> AttemptDir:
        """Return the directory of attempt 1, 2, … of a job."""
        return AttemptDir(self.job(job_id) / f"attempt-{attempt}")

    def attempts(self, job_id: str) -> list[AttemptDir]:
        """Return the attempts that exist on disk, in order."""
        folders = self.job(job_id).glob("attempt-*")
        return [AttemptDir(p) for p in sorted(folders, key=lambda p: int(p.name.split("-")[1]))]

    @property
    def socket(self) -> Path:
        return self._sockets / "emulator.sock"

    @property
    def admin_socket(self) -> Path:
        return self._sockets / "admin.sock"

    @property
    def _sockets(self) -> Path:
        """Folder of the sockets: one in /tmp if their paths here were too long.

        Raises StateDirError if another user owns that folder.
        """
        if len(os.fsencode(self.root)) + len("/emulator.sock") <= SOCKET_LIMIT:
            return self.root
        folder = _SHORT_FOLDER
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise StateDirError(
                f"{folder} must be a folder that only you can enter: it holds the sockets of "
                f"{self.root}, whose path is too long for a Unix socket. Remove the folder, or choose "
                "a shorter state directory"
            )
        return folder / hashlib.sha256(os.fsencode(self.root.resolve())).hexdigest()[:16]

    @property
    def target(self) -> str:
        """gRPC target of the socket."""
        return f"unix:{self.socket}"

    @property
    def admin_target(self) -> str:
        """gRPC target for the admin's calls, which faults of the clients' socket do not affect."""
        return f"unix:{self.admin_socket}" if self.admin_socket.exists() else self.target

    def prepare(self) -> None:
        """Create the directory for this user only.

        Raises StateDirError when it can't be created or belongs to another user.
        """
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.root.stat().st_uid != os.getuid():
                raise StateDirError(f"{self.root} belongs to another user; choose another state directory")
            self.root.chmod(0o700)
            self._sockets.mkdir(mode=0o700, exist_ok=True)
            self.buckets.mkdir(mode=0o700, exist_ok=True)
            self.buckets.chmod(0o700)
        except OSError as error:
            raise StateDirError(f"can't use the state directory {self.root}: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class AttemptDir:
    """Files of one attempt. The runner writes all of them except `plan`, `commands` and `messages`.

    `REPLICA.stdout` and `REPLICA.stderr` contain exactly the replica's output; the server replaces the part
    that is already in the log with a hole, except for the newest output. Beside each file, `….stamps` is a
    sequence of 16-byte records. A record has two little-endian signed 64-bit numbers: the size of the output
    file in bytes, and the time in ns since the epoch. The runner appends a record when the file has grown. A
    line that ends at offset o was written no later than the first stamp whose size is ≥ o, so that lines have
    exact times without a server.
    """

    root: Path

    @property
    def number(self) -> int:
        """Number of the attempt, from 1."""
        return int(self.root.name.split("-")[1])

    plan = FileIn("plan.json")
    """Plan of the attempt as `AttemptPlan` JSON, written atomically before the runner starts."""

    @property
    def messages(self) -> Path:
        """Platform messages of the attempt's start that are in the log, one per line, written by the server.

        The file is beside the attempt's directory, which exists only once the attempt does.
        """
        return self.root.with_name(f"messages-{self.number}")

    commands = FileIn("commands.jsonl")
    """Commands of the server to the runner as JSON lines; see `tui.emulator.runner.plan`."""
    gcloud_config = FileIn("gcloud")
    database = FileIn("runner.db")
    """The runner's record: processes, exit codes, samples. Read-only for the server."""
    runner_log = FileIn("runner.log")
    reaper = FileIn("reaper")
    """Pid, start in ticks and boot of the runner's parent."""
    reaped = FileIn("reaped")
    """Ends of the processes that a killed runner left; see `tui.emulator.runner.reaper`."""

    def output(self, replica: str, stream: str) -> Path:
        """Return the output file of one replica. `stream` is "stdout" or "stderr"."""
        return self.root / f"{replica}.{stream}"

    def stamps(self, replica: str, stream: str) -> Path:
        return self.root / f"{replica}.{stream}.stamps"

    def workdir(self, replica: str) -> Path:
        """Return the replica's working directory, which replaces its boot disk."""
        return self.root / f"{replica}.work"


def url_of_buckets(port: int, key: str) -> str:
    """Return the base address of the bucket server. The secret `key` gives access to every bucket."""
    return f"http://127.0.0.1:{port}/{key}"


def default_state_dir() -> StateDir:
    """Return `$VXTUI_STATE_DIR/emulator`, or the directory below the user's state directory if that is
    unset."""
    base = os.environ.get("VXTUI_STATE_DIR")
    if base:
        return StateDir(Path(base) / "emulator")
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return StateDir(home / "vxtui" / "emulator")
