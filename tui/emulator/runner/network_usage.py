"""TCP traffic of local processes, from the kernel's socket accounting (NETLINK_SOCK_DIAG).

Replicas on one machine share its network counters, so a replica's traffic is the sum over its open sockets.
Traffic of a socket after its last sample, or of a socket that opens and closes between two, is not counted.
The module uses only the standard library.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST_DUMP = 0x301
_MESSAGE_ERROR, _MESSAGE_DONE = 2, 3
_INET_DIAG_INFO = 2
_HEADER, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=HH")
# Offsets in struct inet_diag_msg (the cookie ends struct inet_diag_sockid) and in struct tcp_info.
_COOKIE, _INODE, _DIAG_MSG_SIZE = 44, 68, 72
_BYTES_ACKED, _BYTES_RECEIVED = 120, 128


@dataclass(frozen=True, slots=True)
class SocketBytes:
    """Traffic of one TCP socket in bytes since it was opened; `cookie` is unique until the next boot."""

    cookie: int
    received: int
    sent: int


def sockets() -> dict[int, SocketBytes]:
    """Return every TCP socket of this network namespace by its inode. Raises OSError if the kernel
    refuses."""
    by_inode: dict[int, SocketBytes] = {}
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as link:
        link.settimeout(2)
        for family in (socket.AF_INET, socket.AF_INET6):
            body = struct.pack(
                "=BBBBI", family, socket.IPPROTO_TCP, 1 << (_INET_DIAG_INFO - 1), 0, 0xFFFFFFFF
            )
            body += bytes(48)
            size = _HEADER.size + len(body)
            link.send(_HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0) + body)
            while _parse_datagram(link.recv(1 << 18), by_inode):
                pass
    return by_inode


def _parse_datagram(data: bytes, by_inode: dict[int, SocketBytes]) -> bool:
    """Parse one datagram of the reply. Return False when the dump has ended."""
    at = 0
    while at + _HEADER.size <= len(data):
        size, kind, *_ = _HEADER.unpack_from(data, at)
        if kind == _MESSAGE_DONE or size < _HEADER.size:
            return False
        if kind == _MESSAGE_ERROR:
            raise OSError(-struct.unpack_from("=i", data, at + _HEADER.size)[0], "socket diagnostics refused")
        _parse_socket(data[at + _HEADER.size : at + size], by_inode)
        at += (size + 3) & ~3
    return True


def _parse_socket(message: bytes, by_inode: dict[int, SocketBytes]) -> None:
    cookie = struct.unpack_from("=Q", message, _COOKIE)[0]
    inode = struct.unpack_from("=I", message, _INODE)[0]
    at = _DIAG_MSG_SIZE
    while at + _ATTRIBUTE.size <= len(message):
        size, kind = _ATTRIBUTE.unpack_from(message, at)
        if size < _ATTRIBUTE.size:
            return
        # Listening and closing sockets have no tcp_info, or a shorter structure.
        if kind == _INET_DIAG_INFO and size >= _ATTRIBUTE.size + _BYTES_RECEIVED + 8:
            sent, received = struct.unpack_from("=QQ", message, at + _ATTRIBUTE.size + _BYTES_ACKED)
            by_inode[inode] = SocketBytes(cookie, received, sent)
        at += (size + 3) & ~3


def inodes(pids: Iterable[int]) -> set[int]:
    """Return the inodes of the sockets that these processes have open."""
    held = set()
    for pid in pids:
        try:
            names = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue
        for name in names:
            try:
                target = os.readlink(f"/proc/{pid}/fd/{name}")
            except OSError:
                continue
            if target.startswith("socket:["):
                held.add(int(target[8:-1]))
    return held


class NetworkMeter:
    """Traffic of one replica since its start: the sum of the last values of all its sockets."""

    def __init__(self) -> None:
        self._open: dict[int, SocketBytes] = {}
        self._received = self._sent = 0

    def update(self, table: Mapping[int, SocketBytes], held: Set[int]) -> tuple[int, int]:
        """Return (received, sent) in bytes; neither ever decreases."""
        now = {table[inode].cookie: table[inode] for inode in held if inode in table}
        for cookie, last in self._open.items():
            if cookie not in now:
                self._received += last.received
                self._sent += last.sent
        self._open = now
        received = self._received + sum(c.received for c in now.values())
        return received, self._sent + sum(c.sent for c in now.values())
