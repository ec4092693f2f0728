"""Processes from /proc, identified by pid and start time. The module uses only the standard library."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Proc:
    """One process: its CPU time in s and that of its reaped children (`cpu_reaped`), its resident memory in
    bytes, and its start time in clock ticks since boot."""

    pid: int
    ppid: int
    session: int
    state: str
    cpu: float
    cpu_reaped: float
    rss: int
    start: int

    @property
    def key(self) -> tuple[int, int]:
        """Identity of the process. A later process with the same pid has a different start time."""
        return self.pid, self.start

    @property
    def ended(self) -> bool:
        """Whether the process is a zombie: ended and not yet reaped."""
        return self.state in "ZX"


def become_subreaper() -> None:
    """Adopt orphaned descendants of any session as children. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def _read_bytes(path: str) -> bytes:
    # Called for every process of the machine: pathlib and io take ten times as long.
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, 4096)
    finally:
        os.close(file)


def exit_code(ended: os.waitid_result) -> int:
    """Return the exit code of an ended child; 128 + signal if a signal ended it."""
    return ended.si_status if ended.si_code == os.CLD_EXITED else 128 + ended.si_status


def read(pid: int) -> Proc | None:
    """Return the process `pid`, or `None` if there is none."""
    try:
        text = _read_bytes(f"/proc/{pid}/stat")
    except OSError:
        return None
    # The command's name is in parentheses and may contain spaces and parentheses itself.
    rest = text[text.rindex(b")") + 2 :].split()
    return Proc(
        pid,
        ppid=int(rest[1]),
        session=int(rest[3]),
        state=rest[0].decode(),
        cpu=(int(rest[11]) + int(rest[12])) / TICKS,
        cpu_reaped=(int(rest[13]) + int(rest[14])) / TICKS,
        rss=int(rest[21]) * PAGE,
        start=int(rest[19]),
    )


def scan() -> dict[int, Proc]:
    """Return every process by pid."""
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (proc := read(int(name))) is not None:
            table[proc.pid] = proc
    return table


def descendants(table: Mapping[int, Proc], roots: Iterable[int]) -> list[Proc]:
    """Return the processes below and including `roots`, parents before children, including zombies."""
    children: dict[int, list[int]] = {}
    for proc in table.values():
        children.setdefault(proc.ppid, []).append(proc.pid)
    family, stack = [], list(roots)
    while stack:
        pid = stack.pop()
        stack += children.get(pid, [])
        if (mine := table.get(pid)) is not None:
            family.append(mine)
    return family


def environment_has(pid: int, name: str, value: str) -> bool:
    """Return whether the process was started with `name=value` in its environment."""
    try:
        data = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"{name}={value}".encode() in data.split(b"\0")


def environment(pid: int) -> dict[str, str]:
    """Return the environment at the start of the process; the result is empty if it is unreadable or the
    process has ended."""
    try:
        data = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (os.fsdecode(pair).partition("=") for pair in data.split(b"\0"))
    return {name: value for name, equals, value in pairs if equals}


def is_running(pid: int, start: int) -> bool:
    """Return whether the process with this pid and start time still runs."""
    proc = read(pid)
    return proc is not None and proc.start == start and not proc.ended


def send(procs: Iterable[Proc], number: signal.Signals) -> None:
    """Send each process a signal, but never a process that has reused its pid."""
    for proc in procs:
        try:
            handle = os.pidfd_open(proc.pid)
        except OSError as error:
            # Without pidfd, in some kernels and sandboxes, the check below leaves a race of microseconds.
            if error.errno != errno.ENOSYS:
                continue
            if is_running(*proc.key):
                with contextlib.suppress(OSError):
                    os.kill(proc.pid, number)
            continue
        try:
            if is_running(*proc.key):
                signal.pidfd_send_signal(handle, number)
        except OSError:
            continue
        finally:
            os.close(handle)
