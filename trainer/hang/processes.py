"""What the kernel says of a process that does not answer."""

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
    """`state` in words, `wait` the kernel's function that it waits in, empty if unknown."""

    state: str
    wait: str = ""
    cpu_seconds: float = 0.0


def process_state(pid: int) -> ProcessState:
    """Of a process of this machine."""
    try:
        # After the name in parentheses; utime and stime are the 14th and 15th field (proc(5)).
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ProcessState(ENDED)
    wait = ""
    with contextlib.suppress(OSError):
        wait = Path(f"/proc/{pid}/wchan").read_text().strip()
    cpu = (int(fields[11]) + int(fields[12])) / _TICKS
    return ProcessState(_STATES.get(fields[0], fields[0]), "" if wait == "0" else wait, cpu)


def io_bytes(pid: int) -> int:
    """Bytes that the process has read and written so far, sockets and pipes too; 0 if that is hidden."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        # rchar and wchar (proc(5)).
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()[:2]
        return sum(int(line.split()[1]) for line in lines)
    return 0


def catches(pid: int, number: int) -> bool:
    """Whether the process has a handler for this signal; without one the signal would end it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    mask = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), "0")
    return bool(int(mask, 16) >> (number - 1) & 1)


def children(pid: int) -> list[int]:
    """Processes that its threads have started, e.g. those that load data."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, path.read_text().split())
    return found
