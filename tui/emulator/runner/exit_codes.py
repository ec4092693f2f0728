"""Meaning of a replica's exit code (docs/facts/vertex.md 3.8 and 13.2). The module uses only the standard
library.

According to the documentation, a "non-permanent" code restarts the worker in place and a "permanent" code
ends the job; the documentation names only the transient signals. The emulator chooses for the other codes:

- 75 (EX_TEMPFAIL, which a trainer returns after a request to stop) and the end by a signal from outside
  (SIGTERM, SIGHUP, …) are non-permanent;
- 6/134 (SIGABRT) and 11/139 (SIGSEGV) end the attempt, because the entire job has to restart;
- 9/137 (SIGKILL) is nearly always out of memory (OOM), which a restart does not fix: it ends the attempt;
- every other code ends the attempt: 1 and 2 come from the program, 126 and 127 mean that it can't be started.
"""

from __future__ import annotations

import os
import signal
from enum import Enum

TEMPORARY = os.EX_TEMPFAIL
_FATAL_SIGNALS = frozenset({signal.SIGABRT, signal.SIGSEGV, signal.SIGKILL})


class ExitMeaning(Enum):
    """Consequence of the end of one replica."""

    DONE = "done"
    RESTART_WORKER = "restart the worker"
    END_ATTEMPT = "end the attempt"


def from_wait_status(status: int) -> int:
    """Return the exit code of a wait status; 128 + signal if a signal ended the process, as in a shell."""
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def meaning(code: int) -> ExitMeaning:
    """Return the consequence of `code`. 128 + n counts as signal n, even from a shell."""
    if code == 0:
        return ExitMeaning.DONE
    if code == TEMPORARY:
        return ExitMeaning.RESTART_WORKER
    number = code - 128
    if 0 < number < signal.NSIG and number not in _FATAL_SIGNALS:
        return ExitMeaning.RESTART_WORKER
    return ExitMeaning.END_ATTEMPT
