"""Linux's prctl, for which Python has no call."""

from __future__ import annotations

import ctypes
import os
import signal

_SET_PARENT_DEATH_SIGNAL, _SET_NAME = 1, 15


def die_with_parent(parent: int = 0) -> None:
    """Have the kernel kill this process when its parent dies; with `parent`, also if it is dead already."""
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if parent and os.getppid() != parent:
        os._exit(1)


def set_process_name(name: str) -> None:
    """Set the name that `ps` and `top` show; Linux keeps 15 bytes."""
    ctypes.CDLL(None).prctl(_SET_NAME, ctypes.c_char_p(name.encode()), 0, 0, 0)
