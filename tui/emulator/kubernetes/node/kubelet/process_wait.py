"""Waits for the end of any process, not only of children."""

from __future__ import annotations

import asyncio
import errno
import os

POLL_SECONDS = 0.1
"""Poll interval if the kernel has no pidfd."""


async def process_ended(pid: int) -> None:
    """Wait for the process to end, or for `POLL_SECONDS` if the kernel has no pidfd."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except OSError as error:
        if error.errno not in {errno.ENOSYS, errno.EMFILE, errno.ENFILE, errno.EPERM, errno.EINVAL}:
            raise
        await asyncio.sleep(POLL_SECONDS)
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)
