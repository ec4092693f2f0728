"""Information from the kernel about a process that does not answer."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

_STATES = {
    "R": "running", "S": "sleeping", "D": "waiting for a device", "Z": "ended", "X": "ended",
    "T": "stopped", "t": "stopped by a debugger",
}  # fmt: skip
RUNNING, ENDED, STOPPED = "running", "ended", ("stopped", "stopped by a debugger")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class ProcessState:
    """The state of a process as text; `wait` is the kernel function that it waits in, "" if it is unknown."""

    state: str
    wait: str = ""
    cpu_seconds: float = 0.0


def process_state(pid: int) -> ProcessState:
    """Return the state of a process on this machine."""
    try:
        # The fields follow the name in parentheses; the 14th and 15th are utime and stime (proc(5)).
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ProcessState(ENDED)
    wait = ""
    with contextlib.suppress(OSError):
        wait = Path(f"/proc/{pid}/wchan").read_text().strip()
    cpu = (int(fields[11]) + int(fields[12])) / _TICKS
    return ProcessState(_STATES.get(fields[0], fields[0]), "" if wait == "0" else wait, cpu)


def io_bytes(pid: int) -> int:
    """Return the bytes that the process has read and written so far, including sockets and pipes, or 0 if
    hidden."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        # rchar and wchar (proc(5)).
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()[:2]
        return sum(int(line.split()[1]) for line in lines)
    return 0


def has_handler(pid: int, number: int) -> bool:
    """Return whether the process has a handler for this signal; the signal would end a process without a
    handler."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    mask = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), "0")
    return bool(int(mask, 16) >> (number - 1) & 1)


def children(pid: int) -> list[int]:
    """Return processes that the threads of a process started, e.g. to load data."""
    pids: list[int] = []
    with contextlib.suppress(OSError):
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                pids += map(int, path.read_text().split())
    return pids
