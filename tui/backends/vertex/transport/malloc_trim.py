"""Returns unused heap memory to the system after a burst."""

from __future__ import annotations

import ctypes
from collections.abc import Callable


def _trimmer() -> Callable[[int], int] | None:
    """Return `malloc_trim` of the C library (glibc), or None if the library lacks it."""
    try:
        function: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    return function


_trim = _trimmer()


def trim() -> None:
    """Return free heap memory to the system. The call takes a few milliseconds, so run it in a thread.

    A list that fills a hole of a busy log returns tens of thousands of entries at once. The process would
    otherwise retain their memory, scattered over the heaps of its threads.
    """
    if _trim is not None:
        _trim(0)
