"""Which start of this machine it is: a time of the monotonic clock means nothing in another one."""

from __future__ import annotations

from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """The id that Linux gives each of its starts; "" where there is none."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
