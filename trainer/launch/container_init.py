"""PID 1 of a container: forwards signals, reaps orphans, exits with its child's code.

The kernel ignores a signal for which PID 1 has no handler, and makes orphans (DataLoader workers,
processes of a killed supervisor) its children. So the first process does only this, above the supervisor.
"""

from __future__ import annotations

import os
import signal


def run_as_init() -> int | None:
    """In PID 1: fork, and return the exit code of the child. In the child and elsewhere: None."""
    if os.getpid() != 1:
        return None
    child = os.fork()
    if child == 0:
        return None
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, lambda n, _: _forward(child, n))
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            return 1
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return 128 - code if code < 0 else code


def _forward(child: int, number: int) -> None:
    try:
        os.kill(child, number)
    except ProcessLookupError:
        return
