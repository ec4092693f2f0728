"""What a replica's exit code means (vertex facts 3.8 and 13.2). Standard library only.

The facts say that a "non-permanent" code restarts the worker in place and a "permanent" one ends the job,
and name only the transient signals. Where they are silent this is our choice:

- 75 (EX_TEMPFAIL, what a trainer says when it was told to leave) and deaths by a signal that somebody
  sent (SIGTERM, SIGHUP, …) are non-permanent;
- 6/134 (SIGABRT) and 11/139 (SIGSEGV) end the attempt, for the whole job is to start again;
- 9/137 (SIGKILL) is nearly always host memory, which a restart does not mend: it ends the attempt;
- so does every other code: 1 and 2 are the program's own word, 126 and 127 mean that there is none.
"""

from __future__ import annotations

import os
import signal
from enum import Enum

TEMPORARY = os.EX_TEMPFAIL
_FATAL_SIGNALS = frozenset({signal.SIGABRT, signal.SIGSEGV, signal.SIGKILL})


class Meaning(Enum):
    """What the end of one replica asks for."""

    DONE = "done"
    RESTART_WORKER = "restart the worker"
    END_ATTEMPT = "end the attempt"


def from_wait_status(status: int) -> int:
    """The exit code of a wait status, 128 + signal for a death by signal, as a shell reports it."""
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def meaning(code: int) -> Meaning:
    """What `code` asks for; 128 + n counts as signal n, whoever reports it."""
    if code == 0:
        return Meaning.DONE
    if code == TEMPORARY:
        return Meaning.RESTART_WORKER
    number = code - 128
    if 0 < number < signal.NSIG and number not in _FATAL_SIGNALS:
        return Meaning.RESTART_WORKER
    return Meaning.END_ATTEMPT
