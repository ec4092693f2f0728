"""This machine: CPUs, memory, and the number of OOM kills. The module uses only the standard library."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")


def cpus() -> int:
    """Return the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


def memory_bytes() -> int:
    """Return the physical memory in bytes, or the control group's limit if that is lower."""
    total = os.sysconf("SC_PHYS_PAGES") * _PAGE
    with contextlib.suppress(OSError, ValueError):
        return min(total, int((_cgroup() / "memory.max").read_text()))
    return total


def oom_kills() -> int:
    """Return the number of processes that the kernel's OOM killer ended in this control group, or on the
    machine if the group's count can't be read.

    Only an increase is meaningful; 0 if neither can be read.
    """
    for path in (_cgroup() / "memory.events", Path("/proc/vmstat")):
        with contextlib.suppress(OSError, ValueError):
            for line in path.read_text().splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return 0


def _cgroup() -> Path:
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            if line.startswith("0::"):
                return Path("/sys/fs/cgroup") / line[3:].lstrip("/")
    return Path("/sys/fs/cgroup")
