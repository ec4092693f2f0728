"""Words between two supervisors, or between one and its fork server: a JSON object a line on a socket.

Nothing here waits: who calls has signals and other sockets to look after.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from typing import Any

_LONGEST = 1 << 20
"""Bytes of a line. Whoever sends more is no part of this run."""


class Line:
    """One end of a connection. `closed` once either side has left; `heard` is when it last spoke."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock, self.closed, self.heard = sock, False, time.monotonic()
        self._rest = b""

    def send(self, **word: Any) -> None:
        """Never waits: a machine that takes in so little that its buffer is full counts as gone."""
        if self.closed:
            return
        data = json.dumps(word).encode() + b"\n"
        try:
            if self.sock.send(data) != len(data):
                self.close()
        except OSError:
            # What it has said before it left can still be read.
            return

    def receive(self) -> list[dict[str, Any]]:
        """All words that have come; an end of the connection shows as `closed`."""
        while not self.closed:
            try:
                block = self.sock.recv(65536)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                block = b""
            self._rest += block
            if not block or len(self._rest) > _LONGEST:
                self.close()
        *lines, self._rest = self._rest.split(b"\n")
        try:
            found = [json.loads(line) for line in lines]
        except ValueError:
            found = [None]
        if not all(isinstance(word, dict) for word in found):
            self.close()
            return []
        if found:
            self.heard = time.monotonic()
        return found

    def close(self) -> None:
        self.closed = True
        self.sock.close()

    def silent(self) -> float:
        """Seconds since it last spoke."""
        return time.monotonic() - self.heard
