"""Linux calls that Python does not have: prctl, and the start time of the parent process."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

_SET_PARENT_DEATH_SIGNAL, _SET_NAME = 1, 15


def die_with_parent(parent: int = 0) -> None:
    """Make the kernel kill this process when its parent ends, or now if the process `parent` has already
    ended."""
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if parent and os.getppid() != parent:
        os._exit(1)


def set_process_name(name: str) -> None:
    """Set the name for `ps` and `top`; Linux truncates it to 15 bytes."""
    ctypes.CDLL(None).prctl(_SET_NAME, ctypes.c_char_p(name.encode()), 0, 0, 0)


def parent_id() -> str:
    """Return process id and start time of the parent, a pair that is never reused. Raises OSError if the
    parent is hidden from this process."""
    parent = os.getppid()
    # The fields follow the name in parentheses; the 22nd is the start in clock ticks since the boot
    # (proc(5)).
    fields = Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()
    return f"{parent}-{fields[19]}"
