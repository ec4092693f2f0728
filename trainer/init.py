"""PID 1 of a container: passes signals on, reaps whatever is orphaned, ends with its child's code.

A process without a handler of its own ignores signals as PID 1, and orphans of DataLoaders or of a killed
agent become its children. So the first process only does that, and the supervisor is its child.
"""

from __future__ import annotations

import os
import signal


def become_init() -> int | None:
    """In the child, and where this is not PID 1: None. In PID 1: the child's exit code, once it has ended."""
    if os.getpid() != 1:
        return None
    child = os.fork()
    if child == 0:
        return None
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, lambda n, _: _pass_on(child, n))
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            return 1
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return 128 - code if code < 0 else code


def _pass_on(child: int, number: int) -> None:
    try:
        os.kill(child, number)
    except ProcessLookupError:
        return
