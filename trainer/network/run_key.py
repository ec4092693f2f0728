"""The key of a run: all of its nodes derive the same key, and no other process can.

The key is derived from a secret and the job's id, so runs with the same secret have different keys. The
secret is the first of: `$VXTUI_RUN_KEY`; the content of `$VXTUI_RUN_KEY_FILE`, such as a mounted Secret; if
all nodes are on this machine, a random file that only this user can read. Otherwise there is no secret, and
the key is only as secret as the job's id: see the section on security in trainer/README.md.
"""

from __future__ import annotations

import hmac
import os
import pwd
import secrets
import stat
from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path

from trainer.errors import UsageError
from trainer.network.addresses import on_one_machine
from trainer.placement.topology import Topology
from trainer.structured_log import emit

SECRET = "VXTUI_RUN_KEY"
SECRET_FILE = "VXTUI_RUN_KEY_FILE"
_MIN_LENGTH = 16
_MAX_LENGTH = 4096


def run_key(topology: Topology, env: MutableMapping[str, str] = os.environ) -> bytes:
    """Return the key of this run and remove its secret from `env`, which the run's processes inherit and may
    log.

    Raises:
        UsageError: if the secret is too short or can't be read.
    """
    secret, file = env.pop(SECRET, "").strip().encode(), env.get(SECRET_FILE, "")
    if file and not secret:
        secret = _read(Path(file)).strip()
    if (secret or file) and len(secret) < _MIN_LENGTH:
        raise UsageError(f"the secret in {SECRET} or {SECRET_FILE} has fewer than {_MIN_LENGTH} characters")
    if not secret and on_one_machine(topology.peers):
        secret = user_secret()
    if not secret and "CLOUD_ML_JOB_ID" not in env:
        text = (
            f"neither {SECRET} nor {SECRET_FILE} is set: anyone who reaches this node's ports and guesses "
            "the names in its variables can join the run. Set one of them to the same secret on all nodes"
        )
        emit("phase", text, severity="WARNING", phase="starting")
    return hmac.digest(secret, b"run " + topology.job.encode(), "sha256")


def user_secret(folders: tuple[Path, ...] = ()) -> bytes:
    """Return this user's secret on this machine; the first node creates it. Raises UsageError."""
    problem = ""
    for folder in folders or _folders():
        path = folder / "run-key"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _create(path)
            return _read(path, private=True)
        except (OSError, UsageError) as error:
            problem = problem or str(error)
    raise UsageError(
        f"no folder for this user's run key: {problem}. Set {SECRET} to the same secret on all nodes"
    )


def _folders() -> tuple[Path, ...]:
    """Return the folders that do not depend on HOME and TMPDIR, so that all processes of this user share
    them."""
    user, homes = os.getuid(), list[Path]()
    with suppress(KeyError):
        homes.append(Path(pwd.getpwuid(user).pw_dir) / ".local" / "state" / "vxtui-trainer")
    return (*homes, Path("/tmp") / f"vxtui-trainer-{user}")


def _create(path: Path) -> None:
    """Create the file atomically with its content, because another node may create or read it at the same
    moment."""
    if path.exists():
        return
    new = path.with_name(f"{path.name}-{secrets.token_hex(8)}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32))
        with suppress(FileExistsError):
            os.link(new, path)
    finally:
        new.unlink()


def _read(path: Path, *, private: bool = False) -> bytes:
    """Return the content of a short regular file; with `private` only this user may own, read or replace
    it."""
    flags = os.O_RDONLY | os.O_NONBLOCK | (os.O_NOFOLLOW if private else 0)
    try:
        with os.fdopen(os.open(path, flags), "rb") as file:
            status, data = os.fstat(file.fileno()), file.read(_MAX_LENGTH + 1)
            places = (status, path.parent.lstat()) if private else ()
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror or error}") from error
    if not stat.S_ISREG(status.st_mode) or len(data) > _MAX_LENGTH:
        raise UsageError(f"{path} must be a file of at most {_MAX_LENGTH} bytes")
    if any(place.st_uid != os.getuid() or place.st_mode & 0o022 for place in places) or (
        private and status.st_mode & 0o077
    ):
        raise UsageError(f"{path} and its folder must not be accessible to other users")
    return data
