"""Messages between two supervisors, or a supervisor and its fork server: one JSON object per line.

On a network, a `Handshake` comes first. No call blocks, because the caller also serves signals and other
sockets.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable
from typing import Any

from trainer.network.handshake import NO_KEY, Handshake, HandshakeError

_MAX_BYTES = 1 << 20
"""Maximum length of a line in bytes. A peer that sends a longer line does not belong to this run."""
_MAX_UNSENT = 16 << 20
"""Bytes that may wait for the peer; a peer with more unread bytes counts as lost."""
_MAX_SHOWN = 60
"""Number of bytes of an unreadable line that the log shows."""


class MessageStream:
    """One end of a connection. `closed` is true after either side closed it."""

    def __init__(
        self,
        sock: socket.socket,
        clock: Callable[[], float] = time.monotonic,
        peer: str = "",
        handshake: Handshake | None = None,
    ) -> None:
        """`peer` is the peer's address, for the log. Messages are sent and read only after the
        `handshake`."""
        sock.setblocking(False)
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock, self.closed, self.peer = sock, False, peer
        self.problem = ""
        """The problem of an invalid message from the peer, after which the connection is closed."""
        self._clock, self._last_received = clock, clock()
        self._handshake = handshake
        self._partial = b""
        self._unsent, self._held = b"", b""
        """Bytes that the peer has not read yet, and bytes that wait for the end of the handshake."""
        if handshake is not None:
            self._unsent = handshake.opening
            self._flush()

    @property
    def is_authentic(self) -> bool:
        """Whether the peer has proved that it has the run's key."""
        return self._handshake is None or not self._handshake.needs

    def send(self, **message: Any) -> None:
        """Send a message. If the peer's receive buffer is full, the next `receive` sends the rest."""
        if self.closed:
            return
        line = json.dumps(message).encode() + b"\n"
        if self.is_authentic:
            self._unsent += line
            self._flush()
        else:
            self._held += line

    def _flush(self) -> None:
        try:
            while self._unsent:
                self._unsent = self._unsent[self.sock.send(self._unsent) :]
        except BlockingIOError:
            if len(self._unsent) > _MAX_UNSENT:
                self.close()
        except OSError:
            # Messages that were sent before the peer closed the connection can still be read.
            self._unsent = b""

    def receive(self) -> list[dict[str, Any]]:
        """Return all messages that arrived; the end of the connection sets `closed`."""
        if self._unsent and not self.closed:
            self._flush()
        while not self.closed:
            try:
                block = self.sock.recv(65536)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                block = b""
            self._partial += block
            if not block:
                self.problem = NO_KEY if self._partial and not self.is_authentic else ""
                self.close()
            elif len(self._partial) > _MAX_BYTES:
                return self._reject(f"a line of more than {_MAX_BYTES >> 20} MiB")
            elif not self._shake_hands():
                return []
        return self._messages() if self.is_authentic else []

    def _messages(self) -> list[dict[str, Any]]:
        """Remove the complete lines from the bytes that arrived, and parse them."""
        *lines, self._partial = self._partial.split(b"\n")
        messages = []
        for line in lines:
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                message = None
            if not isinstance(message, dict):
                return self._reject(repr(line[:_MAX_SHOWN])[1:])
            messages.append(message)
        if messages:
            self._last_received = self._clock()
        return messages

    def _shake_hands(self) -> bool:
        """Answer the bytes of the handshake that have arrived; return False if the peer does not have the
        key."""
        while self._handshake is not None and 0 < self._handshake.needs <= len(self._partial):
            size = self._handshake.needs
            data, self._partial = self._partial[:size], self._partial[size:]
            try:
                self._unsent += self._handshake.answer(data)
            except HandshakeError as error:
                self._reject(str(error))
                return False
            if self.is_authentic:
                self._unsent, self._held = self._unsent + self._held, b""
            self._flush()
        return True

    def _reject(self, problem: str) -> list[dict[str, Any]]:
        self.problem, self._partial = problem, b""
        self.close()
        return []

    def close(self) -> None:
        self.closed = True
        self.sock.close()

    def silent_seconds(self) -> float:
        """Return the seconds since the peer's last message."""
        return self._clock() - self._last_received
