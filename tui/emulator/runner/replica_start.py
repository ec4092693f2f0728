"""Starts one replica's first process. The module uses only the standard library."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tui.emulator.paths import AttemptDir
from tui.emulator.runner.plan import ReplicaPlan

START_ERROR = 128
"""Exit code of a container whose program can't be started (docs/facts/vertex.md 16)."""


class CannotStart(Exception):
    """The command can't be started."""


def start_replica(replica: ReplicaPlan, env: Mapping[str, str], home: AttemptDir) -> subprocess.Popen[bytes]:
    """Start the first process in a new session, with its output in the replica's files.

    Raises CannotStart: the reason is also in the replica's stderr.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    try:
        _prepare(replica)
        out = os.open(home.output(replica.id, "stdout"), flags, 0o600)
        stream = "stdout" if replica.one_output else "stderr"
        err = os.open(home.output(replica.id, stream), flags, 0o600)
    except OSError as error:
        raise CannotStart(f"can't prepare {replica.workdir}: {error.strerror}") from error
    try:
        # Don't use preexec_fn: it would prevent vfork, which starts a process faster.
        return subprocess.Popen(
            list(replica.argv),
            cwd=replica.workdir,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        refusal = explain(replica.argv[0], error)
        with contextlib.suppress(OSError):
            os.write(err, f"{refusal}\n".encode(errors="replace"))
        raise refusal from error
    finally:
        os.close(out)
        os.close(err)


def remove_tmpdir_link(replica: ReplicaPlan) -> None:
    """Remove the link that `start_replica` created."""
    link = Path(replica.env.get("TMPDIR", ""))
    with contextlib.suppress(OSError):
        if link.is_symlink():
            link.unlink()


def _prepare(replica: ReplicaPlan) -> None:
    """Create the working directory, and TMPDIR as a link to it.

    Programs create sockets below TMPDIR (multiprocessing does), and a socket's path may have at most 107
    bytes, so TMPDIR is a short path elsewhere.
    """
    workdir = Path(replica.workdir)
    workdir.mkdir(parents=True, exist_ok=True)
    name = replica.env.get("TMPDIR")
    if name and not Path(name).exists():
        (workdir / "tmp").mkdir(exist_ok=True)
        link = Path(name)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(workdir / "tmp")


def explain(program: str, error: OSError | ValueError) -> CannotStart:
    """Return the error of a container runtime for a program that can't be started."""
    if isinstance(error, FileNotFoundError):
        if "/" in program:
            why = "no such file or directory, or the interpreter in its first line is missing"
        else:
            why = "executable file not found in $PATH"
        return CannotStart(f'exec: "{program}": {why}')
    why = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return CannotStart(f'exec: "{program}": {why.lower()}')
