"""The programs that stand in for Open MPI's `mpirun` and for `sshd` in the pods of this machine.

A machine that has an `mpirun` keeps its own. Pods share the machine, and none has an sshd of its own to be
met by: `mpirun` starts its processes in the worker pods by the API's exec, and a worker's `sshd` only waits
to be ended.
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
    # A pod that starts meanwhile finds the old one or the new one.
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_text(text)
    new.chmod(0o700)
    new.replace(path)


def local_words(words: Sequence[str], folder: Path) -> list[str]:
    """A container's command line, with the program of `folder` for an sshd that is not here."""
    if words and PurePosixPath(words[0]).name == SSHD and not Path(words[0]).exists():
        return [str(folder / SSHD)]
    return list(words)
