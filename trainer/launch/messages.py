"""Messages between two supervisors, or between one and its fork server: a JSON object a line on a socket.

Nothing here blocks: the caller also serves signals and other sockets.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable
from typing import Any

_MAX_BYTES = 1 << 20
"""Longest line. A peer that sends a longer one is not part of this run."""


class MessageStream:
    """One end of a connection. `closed` is set once either side has closed it."""

    def __init__(self, sock: socket.socket, clock: Callable[[], float] = time.monotonic) -> None:
        sock.setblocking(False)
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock, self.closed = sock, False
        self._clock, self._last_received = clock, clock()
        self._partial = b""

    def send(self, **message: Any) -> None:
        """Send a message. A peer whose receive buffer is full counts as lost."""
        if self.closed:
            return
        data = json.dumps(message).encode() + b"\n"
        try:
            if self.sock.send(data) != len(data):
                self.close()
        except OSError:
            # Messages from before the peer closed can still be read.
            return

    def receive(self) -> list[dict[str, Any]]:
        """All messages that have arrived; the end of the connection sets `closed`."""
        while not self.closed:
            try:
                block = self.sock.recv(65536)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                block = b""
            self._partial += block
            if not block or len(self._partial) > _MAX_BYTES:
                self.close()
        *lines, self._partial = self._partial.split(b"\n")
        try:
            messages = [json.loads(line) for line in lines]
        except ValueError:
            messages = [None]
        if not all(isinstance(message, dict) for message in messages):
            self.close()
            return []
        if messages:
            self._last_received = self._clock()
        return messages

    def close(self) -> None:
        self.closed = True
        self.sock.close()

    def silent_seconds(self) -> float:
        """Seconds since the peer's last message."""
        return self._clock() - self._last_received
