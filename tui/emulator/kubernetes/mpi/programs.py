"""Programs that replace Open MPI's `mpirun` and `sshd` in pods.

A machine with its own `mpirun` uses that program. Pods share the machine and have no sshd: `mpirun` starts
its processes in the worker pods through the API's exec, and a worker's `sshd` only waits for its end.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

MPIRUN = ("mpirun", "mpiexec", "orterun")
SSHD = "sshd"
_WAIT = 'trap "exit 0" TERM INT\nwhile :; do sleep 3600 & wait $!; done\n'


def write_programs(folder: Path, kubeconfig: Path) -> None:
    """Write the programs that this machine lacks into `folder`. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    script = Path(__file__).with_name("mpirun.py").resolve()
    words = shlex.join([sys.executable, "-P", str(script), str(kubeconfig)])
    for name in MPIRUN:
        if shutil.which(name) is None:
            _write(folder / name, f'#!/bin/sh\nexec {words} "$@"\n')
    _write(folder / SSHD, f"#!/bin/sh\n{_WAIT}")


def _write(path: Path, text: str) -> None:
    if path.exists() and path.read_text() == text:
        return
    # A pod that starts in the meantime sees the complete old or new program.
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_text(text)
    new.chmod(0o700)
    new.replace(path)


def local_words(words: Sequence[str], folder: Path) -> list[str]:
    """Return a container's command line, with the program of `folder` in place of a missing sshd."""
    if words and PurePosixPath(words[0]).name == SSHD and not Path(words[0]).exists():
        return [str(folder / SSHD)]
    return list(words)
