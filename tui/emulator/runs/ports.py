"""Blocks of local ports for jobs, below the kernel's ephemeral range, so that no other socket gets them."""

from __future__ import annotations

import socket
import zlib
from pathlib import Path

FIRST, LAST = 20000, 31999
"""First and last port. Linux's ephemeral range starts at 32768."""


class NoPorts(Exception):
    """No free block is left. The message contains the number of ports."""


class Ports:
    """Allocates blocks of consecutive ports.

    The search starts at a port that depends on the state directory, so that two emulators rarely conflict.
    The search continues after the last block, so that a port is not reused right after its job. A block is
    free when no process listens on any of its ports; another process can bind a port between this check and
    its use.
    """

    def __init__(self, state_dir: Path) -> None:
        self._next = FIRST + zlib.crc32(str(state_dir).encode()) % (LAST - FIRST + 1)
        self._taken: dict[str, range] = {}

    def hold(self, owner: str, first: int, count: int) -> None:
        """Mark a block that an earlier server allocated as in use."""
        if count:
            self._taken[owner] = range(first, first + count)

    def take(self, owner: str, count: int) -> range:
        """Allocate a free block for `owner` and release its former block.

        Raises NoPorts when no block is free.
        """
        self.release(owner)
        if count == 0:
            return range(0)
        first, tried = self._next, 0
        while tried <= LAST - FIRST + 1:
            if first + count - 1 > LAST:
                tried += LAST - first + 1
                first = FIRST
                continue
            block = range(first, first + count)
            busy = self._busy(block)
            if busy is None:
                self._taken[owner] = block
                self._next = block.stop if block.stop <= LAST else FIRST
                return block
            tried += busy + 1 - first
            first = busy + 1
        raise NoPorts(f"no {count} consecutive free ports are left between {FIRST} and {LAST}")

    def release(self, owner: str) -> None:
        """Release a block. Idempotent."""
        self._taken.pop(owner, None)

    def _busy(self, block: range) -> int | None:
        """Return the last port of the block that is in use, or `None` if there is none."""
        for port in reversed(block):
            if any(port in other for other in self._taken.values()) or not _bindable(port):
                return port
        return None


def _bindable(port: int) -> bool:
    with socket.socket() as probe:
        # Without SO_REUSEADDR a port counts as busy for a minute after its last connection.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
