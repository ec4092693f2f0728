"""Processes as /proc shows them: one scan for all, identity by pid and start time. Standard library only."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Proc:
    """One process: CPU time in s, resident memory in bytes, start time in clock ticks since boot."""

    pid: int
    ppid: int
    state: str
    cpu: float
    rss: int
    start: int


def become_subreaper() -> None:
    """Orphaned descendants become our children, whatever session they are in."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def read(pid: int) -> Proc | None:
    """The process `pid`, or None when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    rest = text[text.rindex(")") + 2 :].split()
    cpu = (int(rest[11]) + int(rest[12])) / TICKS
    return Proc(pid, int(rest[1]), rest[0], cpu, int(rest[21]) * PAGE, int(rest[19]))


def scan() -> dict[int, Proc]:
    """Every process, by pid."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (proc := read(int(name))) is not None:
            found[proc.pid] = proc
    return found


def descendants(table: dict[int, Proc], roots: Iterable[int]) -> list[Proc]:
    """Living processes below and including `roots`, zombies left out."""
    children: dict[int, list[int]] = {}
    for proc in table.values():
        children.setdefault(proc.ppid, []).append(proc.pid)
    found, stack = [], list(roots)
    while stack:
        pid = stack.pop()
        stack += children.get(pid, [])
        if (mine := table.get(pid)) is not None and mine.state not in "ZX":
            found.append(mine)
    return found


def is_running(pid: int, start: int) -> bool:
    """The process that had this pid and this start time still lives."""
    proc = read(pid)
    return proc is not None and proc.start == start and proc.state not in "ZX"


def send(procs: Iterable[Proc], number: int) -> None:
    """Signal each of them if it is still the same process."""
    for proc in procs:
        if is_running(proc.pid, proc.start):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(proc.pid, signal.Signals(number))
