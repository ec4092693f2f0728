"""The boot id, which identifies the boot that a monotonic time belongs to."""

from __future__ import annotations

from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return the id that Linux assigns to each boot, or "" if there is none."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
