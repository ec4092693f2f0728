"""Blocks of local ports for jobs: below the kernel's ephemeral range, so nothing else drifts into them."""

from __future__ import annotations

import socket
import zlib
from pathlib import Path

FIRST, LAST = 20000, 31999
"""The ephemeral range of Linux starts at 32768."""


class NoPorts(Exception):
    """No free block is left; the message says how many ports were wanted."""


class Ports:
    """Hands out blocks of consecutive ports.

    Searching starts at a place that depends on the state directory, so two emulators rarely meet, and
    goes on from the last block, so a port is not used again right after its job. A block is free when
    nothing listens on any of it; the moment between that check and its use can't be closed from here.
    """

    def __init__(self, state_dir: Path) -> None:
        self._next = FIRST + zlib.crc32(str(state_dir).encode()) % (LAST - FIRST + 1)
        self._taken: dict[str, range] = {}

    def hold(self, owner: str, first: int, count: int) -> None:
        """Count a block that was handed out before this server started."""
        if count:
            self._taken[owner] = range(first, first + count)

    def take(self, owner: str, count: int) -> range:
        """A free block for `owner`; its former block is given back.

        Raises:
            NoPorts: when there is none.
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
        """Give a block back. Idempotent."""
        self._taken.pop(owner, None)

    def _busy(self, block: range) -> int | None:
        """The last port of the block that can't be used."""
        for port in reversed(block):
            if any(port in other for other in self._taken.values()) or not _bindable(port):
                return port
        return None


def _bindable(port: int) -> bool:
    with socket.socket() as probe:
        # Without this a port whose last connection has just closed counts as busy for a minute.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
