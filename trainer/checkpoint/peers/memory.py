"""Free memory for a process of this container."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_RESERVED = 0.1
"""Fraction of the memory that stays free, because some training steps need more memory than others."""
_NO_LIMIT = 1 << 60
"""Threshold above which cgroups v1 means "no limit"."""


@dataclass(frozen=True, slots=True)
class FreeMemory:
    """Memory in bytes: `available` without swapping, and `total`, which is the container's limit if there is
    one."""

    available: int
    total: int

    def lacks_room_for(self, size: int) -> str:
        """Return why `size` more bytes do not fit, or "" if they fit."""
        reserved = int(self.total * _RESERVED)
        if size <= self.available - reserved:
            return ""
        return (
            f"{_amount(size)} do not fit: {_amount(self.available)} of {_amount(self.total)} of "
            f"memory are free, and {_amount(reserved)} must stay free"
        )


def free_memory(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> FreeMemory:
    """Return the smaller of the free memory of the machine and of this process's cgroup. Raises OSError
    without /proc."""
    meminfo = dict(line.split(":", 1) for line in (proc / "meminfo").read_text().splitlines())
    available, total = (int(meminfo[name].split()[0]) << 10 for name in ("MemAvailable", "MemTotal"))
    for limit, used, cache in (*_version_2(proc, cgroups), *_version_1(cgroups)):
        if limit < _NO_LIMIT:
            # The kernel drops cached files when memory is needed.
            available, total = min(available, limit - used + cache), min(total, limit)
    return FreeMemory(max(0, available), total)


def _version_2(proc: Path, cgroups: Path) -> list[tuple[int, int, int]]:
    """Return the limit, usage and inactive file cache of this process's cgroup and of its parents, in
    bytes."""
    usages: list[tuple[int, int, int]] = []
    with suppress(OSError, ValueError):
        lines = (proc / "self/cgroup").read_text().splitlines()
        own = next((line[3:].lstrip("/") for line in lines if line.startswith("0::")), "")
        folder = cgroups / own
        while folder.is_relative_to(cgroups):
            # The root has no limit, and some containers hide the process's own folder.
            with suppress(OSError, ValueError):
                limit = int((folder / "memory.max").read_text())
                usages.append((limit, int((folder / "memory.current").read_text()), _inactive(folder)))
            folder = folder.parent
    return usages


def _version_1(cgroups: Path) -> list[tuple[int, int, int]]:
    folder = cgroups / "memory"
    with suppress(OSError, ValueError):
        limit = int((folder / "memory.limit_in_bytes").read_text())
        return [(limit, int((folder / "memory.usage_in_bytes").read_text()), _inactive(folder))]
    return []


def _inactive(folder: Path) -> int:
    stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    return int(stat.get("total_inactive_file", stat.get("inactive_file", 0)))


def _amount(size: float) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e8 else f"{size / 1e6:,.1f} MB"
