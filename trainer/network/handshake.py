"""Handshake in which both ends of a connection prove that they have the run's key, before any message.

The server sends 32 random bytes. The client answers with 32 random bytes and an HMAC of both, and the server
with another HMAC of both. Therefore, a recording is useless: each proof is valid for one connection and one
end. A server that rejects a proof closes the connection without an answer; its log has the reason.

Python's `multiprocessing.connection` has the same exchange, but blocks, and sends its name and verdict to
everyone who connects.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import time

_NONCE = 32
_PROOF = 32
SECONDS = 10.0
"""Seconds in which a new connection must prove that it has the key."""
NO_KEY = "the peer did not prove that it has the key of this run"


class HandshakeError(Exception):
    """The peer does not have the key, or belongs to another job."""


class Handshake:
    """One end of the exchange, without a socket: send `opening`, then `answer` each `needs` bytes."""

    def __init__(self, key: bytes, job: str, *, serves: bool) -> None:
        """`serves` is true for the end that accepted the connection."""
        self._key, self._job, self._serves = key, job, serves
        self._nonce, self._server_nonce = secrets.token_bytes(_NONCE), b""
        self.opening = self._nonce if serves else b""
        self.needs = _NONCE + _PROOF if serves else _NONCE
        """Number of bytes that the peer sends next; 0 when both ends are authenticated."""

    def answer(self, data: bytes) -> bytes:
        """Process `needs` bytes from the peer; return the bytes to send. Raises HandshakeError."""
        if self._serves:
            nonces = self._nonce + data[:_NONCE]
            self._check(data[_NONCE:], b"client", nonces)
            self.needs = 0
            return self._proof(b"server", nonces)
        if not self._server_nonce:
            self._server_nonce, self.needs = data, _PROOF
            return self._nonce + self._proof(b"client", data + self._nonce)
        self._check(data, b"server", self._server_nonce + self._nonce)
        self.needs = 0
        return b""

    def _check(self, proof: bytes, end: bytes, nonces: bytes) -> None:
        if not hmac.compare_digest(proof, self._proof(end, nonces)):
            raise HandshakeError(NO_KEY)

    def _proof(self, end: bytes, nonces: bytes) -> bytes:
        return hmac.digest(self._key, end + nonces + self._job.encode(), "sha256")


def authenticate(sock: socket.socket, handshake: Handshake, seconds: float = SECONDS) -> None:
    """Run the entire exchange on a blocking socket within `seconds`, without reading beyond it.

    Raises:
        HandshakeError: if the peer does not have the key.
        EOFError: if the peer closes the connection.
        OSError: if the peer does not answer in time.
    """
    deadline = time.monotonic() + seconds
    sock.sendall(handshake.opening)
    while handshake.needs:
        data = b""
        while len(data) < handshake.needs:
            sock.settimeout(max(0.001, deadline - time.monotonic()))
            block = sock.recv(handshake.needs - len(data))
            if not block:
                raise HandshakeError(NO_KEY) if data else EOFError("the peer closed the connection")
            data += block
        sock.sendall(handshake.answer(data))
