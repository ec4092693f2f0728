"""The boot id: a time of the monotonic clock is meaningless after a reboot."""

from __future__ import annotations

from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """The id that Linux gives each boot; "" if there is none."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
