"""Starts one replica's first process. Standard library only."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tui.emulator.paths import AttemptDir
from tui.emulator.plan import ReplicaPlan

NOT_FOUND, NOT_EXECUTABLE = 127, 126


def start_replica(replica: ReplicaPlan, env: Mapping[str, str], home: AttemptDir) -> tuple[int | None, int]:
    """(pid, 0), or (None, exit code) when the command can't be started: 127 missing, 126 not executable.

    The reason is then written to the replica's stderr, in the words a container runtime would use.
    """
    Path(replica.workdir).mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    out = os.open(home.output(replica.id, "stdout"), flags, 0o600)
    err = os.open(home.output(replica.id, "stderr"), flags, 0o600)
    try:
        process = subprocess.Popen(
            list(replica.argv),
            cwd=replica.workdir,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        what = "executable file not found in $PATH" if missing else (error.strerror or str(error))
        os.write(err, f'exec: "{replica.argv[0]}": {what}\n'.encode())
        return None, NOT_FOUND if missing else NOT_EXECUTABLE
    finally:
        os.close(out)
        os.close(err)
    # The runner collects every child by itself; the handle must not try to.
    process.returncode = 0
    return process.pid, 0
