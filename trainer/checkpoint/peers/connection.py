"""The protocol between peer-copy stores and training processes: JSON lines, and bytes of files.

Any program may connect to a store's port. A connection begins with the handshake of `network.handshake`, with
the store's random key, which only the processes of this run have. A connection that fails the handshake is
closed unread.
"""

from __future__ import annotations

import json
import os
import socket
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any, BinaryIO

from trainer.network import handshake
from trainer.network.addresses import local_address
from trainer.network.handshake import Handshake, HandshakeError, authenticate

STORE = "VXTUI_PEER_STORE"
"""Variable with the address of the node's store, as JSON; the supervisor sets it."""
IO_SECONDS = 30.0
"""Seconds without a byte after which the peer counts as lost."""
CONNECT_SECONDS = 5.0
PURPOSE = "peer copies 2"
"""The purpose of the key in the handshake, with the version of this protocol."""
_MESSAGE_BYTES = 4 << 20
"""Maximum length of a line in bytes. A manifest has about 100 bytes per file."""
_BLOCK = 1 << 20
_MAX_SHOWN = 60


class PeerError(Exception):
    """The peer can't be reached, does not belong to this run, or refuses a request; the message gives the
    reason."""


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """The address of a node's store, with the store's random key."""

    node: int
    host: str
    port: int
    key: str = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, address: object) -> StoreAddress:
        """Parse a store's address. Raises PeerError."""
        kinds = {"node": int, "host": str, "port": int, "key": str}
        if not isinstance(address, dict) or {name: type(value) for name, value in address.items()} != kinds:
            raise PeerError("the value must be the address of a store")
        return cls(**address)

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> StoreAddress | None:
        """Return this node's store, or None if the node has no store."""
        try:
            return cls.from_json(json.loads(env.get(STORE, "null")))
        except (ValueError, PeerError):
            return None


class PeerConnection:
    """One end of a connection. Every method raises PeerError when the peer fails."""

    def __init__(self, sock: socket.socket, peer: str = "", seconds: float = IO_SECONDS) -> None:
        """`peer` is the peer's address, for the log; `seconds` is the timeout for the next byte."""
        sock.settimeout(seconds)
        self.peer, self._sock, self._received = peer, sock, bytearray()

    def __enter__(self) -> PeerConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a thread that waits for the peer gets a PeerError."""
        # OSError: the peer has closed the connection.
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def send(self, **message: Any) -> None:
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def send_bytes(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        try:
            # Send blocks: the timeout of sendall covers all bytes of a call.
            for start in range(0, len(view), _BLOCK):
                self._sock.sendall(view[start : start + _BLOCK])
        except OSError as error:
            raise PeerError(_reason(error)) from error

    def send_file(self, file: BinaryIO, size: int) -> None:
        """Send `size` bytes of the file with sendfile."""
        try:
            sent = self._sock.sendfile(file, 0, size) if size else 0
        except OSError as error:
            raise PeerError(_reason(error)) from error
        if sent != size:
            raise PeerError(f"{file.name} became shorter")

    def receive(self) -> dict[str, Any] | None:
        """Return the next message, or None at the end of the connection."""
        line = self._line()
        return None if line is None else _message(line)

    def answer(self) -> dict[str, Any]:
        """Return the answer to the last message. Raises PeerError if the peer refuses, with its reason, or
        does not answer."""
        message = self.receive()
        if message is None:
            raise PeerError("the peer closed the connection")
        if "refused" in message:
            raise PeerError(str(message["refused"])[:400])
        return message

    def receive_into(self, view: memoryview, checksum: int = 0) -> int:
        """Fill `view`; return the CRC-32 of these bytes, continued from `checksum`."""
        done = min(len(view), len(self._received))
        view[:done] = self._received[:done]
        del self._received[:done]
        checksum = zlib.crc32(view[:done], checksum)
        while done < len(view):
            try:
                count = self._sock.recv_into(view[done : done + _BLOCK])
            except OSError as error:
                raise PeerError(_reason(error)) from error
            if not count:
                raise PeerError("the peer closed the connection in the middle of a file")
            checksum = zlib.crc32(view[done : done + count], checksum)
            done += count
        return checksum

    def prove(self, key: str, seconds: float, *, serves: bool) -> None:
        """Exchange proofs of this key within `seconds`. Raises PeerError, with an empty message after a port
        scan."""
        timeout = self._sock.gettimeout()
        try:
            authenticate(self._sock, Handshake(key.encode(), PURPOSE, serves=serves), seconds)
        except HandshakeError as error:
            raise PeerError(str(error)) from error
        except EOFError as error:
            raise PeerError("" if serves else f"{error}: the peer may have another key") from error
        except OSError as error:
            raise PeerError(_reason(error)) from error
        self._sock.settimeout(timeout)

    @property
    def is_local(self) -> bool:
        """Whether the peer is a process of this machine."""
        return self.peer == local_address(self._sock)

    def _line(self) -> bytes | None:
        """Return the next line without its newline; None at the end of the connection."""
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            if searched > _MESSAGE_BYTES:
                raise PeerError(f"the peer sent a line of more than {_MESSAGE_BYTES} bytes")
            try:
                block = self._sock.recv(65536)
            except OSError as error:
                raise PeerError(_reason(error)) from error
            if not block:
                return None
            self._received += block
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line


def connect(address: StoreAddress, seconds: float = IO_SECONDS) -> PeerConnection:
    """Connect to this store; `seconds` limits each answer. Raises PeerError if the store can't be reached, or
    has another key."""
    try:
        sock = socket.create_connection((address.host, address.port), timeout=CONNECT_SECONDS)
    except OSError as error:
        raise PeerError(_reason(error)) from error
    connection = PeerConnection(sock, address.host, seconds)
    try:
        connection.prove(address.key, min(seconds, handshake.SECONDS), serves=False)
    except PeerError:
        connection.close()
        raise
    return connection


def _message(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise PeerError(f"it sent {line[:_MAX_SHOWN]!r}")
    return message


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "the peer does not answer"
    return error.strerror or str(error)
