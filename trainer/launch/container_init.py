"""The first process of a container: it forwards signals, reaps orphans, and restarts a killed supervisor.

The kernel ignores signals without a handler in PID 1, and makes orphans (DataLoader workers, processes of a
killed supervisor) its children. Therefore, a first process above the supervisor does only these tasks. The
container ends with its first process, and Vertex AI may then end the job (docs/facts/vertex.md 3.8). With
this first process, a killed supervisor costs only an attempt, like any other killed process.
"""

from __future__ import annotations

import os
import signal
import time

from trainer.prctl import die_with_parent
from trainer.structured_log import emit

_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
_MAX_RESTARTS = 3
"""Maximum number of consecutive restarts of a supervisor that is killed within `_LIVES_SECONDS`."""
_SHORT_LIFE_SECONDS = 30.0


def run_as_init() -> int | None:
    """Fork in the first process, and return the child's exit code. Return None in the child and elsewhere.

    The first process is PID 1. On Vertex AI it is the caller, because the emulator has no process namespaces,
    and a shell may be PID 1 in a container.
    """
    if os.getpid() != 1 and "CLOUD_ML_JOB_ID" not in os.environ:
        return None
    return _Init().run()


class _Init:
    def __init__(self) -> None:
        self._child = 0
        self._stopping = False

    def run(self) -> int | None:
        quick = 0
        while True:
            began = time.monotonic()
            if self._fork():
                return None
            code = self._wait()
            if code >= 0 or self._stopping:
                return 128 - code if code < 0 else code
            quick = quick + 1 if time.monotonic() - began < _SHORT_LIFE_SECONDS else 0
            if quick > _MAX_RESTARTS:
                return 128 - code
            name = signal.Signals(-code).name
            text = f"the supervisor was killed ({name}): it restarts"
            emit("phase", text, severity="WARNING", phase="restarting", signal=name)

    def _fork(self) -> bool:
        """Fork; return True in the child, which has the default signal handlers."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
        parent, self._child = os.getpid(), os.fork()
        if self._child == 0:
            die_with_parent(parent)
        for number in _FORWARDED:
            signal.signal(number, self._forward if self._child else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
        return self._child == 0

    def _wait(self) -> int:
        """Wait for the child and reap orphans; return the exit code, -n for signal n."""
        while True:
            try:
                pid, status = os.wait()
            except ChildProcessError:
                return 1
            if pid == self._child:
                return os.waitstatus_to_exitcode(status)

    def _forward(self, number: int, _: object) -> None:
        self._stopping |= number != signal.SIGUSR1
        try:
            os.kill(self._child, number)
        except ProcessLookupError:
            return
