"""TCP bytes of local processes, from the kernel's own socket accounting (NETLINK_SOCK_DIAG).

Processes of one machine share its network counters, so a replica's traffic is the sum over the sockets it
holds. A socket that was opened and closed between two looks is missed.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST_DUMP = 0x301
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_INET_DIAG_INFO = 2
_BYTES_ACKED, _BYTES_RECEIVED = 120, 128
"""Offsets in the kernel's struct tcp_info."""
_DIAG_MSG = 72
_INODE_OFFSET = 68


def sockets() -> dict[int, tuple[int, int]]:
    """inode → (bytes received, bytes sent and acknowledged) of every TCP socket. Raises OSError."""
    found: dict[int, tuple[int, int]] = {}
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as link:
        link.settimeout(2)
        for family in (socket.AF_INET, socket.AF_INET6):
            body = struct.pack(
                "=BBBBI", family, socket.IPPROTO_TCP, 1 << (_INET_DIAG_INFO - 1), 0, 0xFFFFFFFF
            )
            body += bytes(48)
            header = struct.pack("=IHHII", 16 + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST_DUMP, 1, 0)
            link.send(header + body)
            while _take(link.recv(1 << 18), found):
                pass
    return found


def _take(data: bytes, found: dict[int, tuple[int, int]]) -> bool:
    """Read one datagram of answers; False when the dump has ended."""
    at = 0
    while at + 16 <= len(data):
        length, kind = struct.unpack_from("=IH", data, at)
        if kind == _NLMSG_DONE:
            return False
        if kind == _NLMSG_ERROR:
            raise OSError(-struct.unpack_from("=i", data, at + 16)[0], "socket diagnostics were refused")
        message = data[at + 16 : at + length]
        inode = struct.unpack_from("=I", message, _INODE_OFFSET)[0]
        where = _DIAG_MSG
        while where + 4 <= len(message):
            size, attribute = struct.unpack_from("=HH", message, where)
            if size < 4:
                break
            if attribute == _INET_DIAG_INFO and size >= 4 + _BYTES_RECEIVED + 8:
                sent, got = struct.unpack_from("=QQ", message, where + 4 + _BYTES_ACKED)
                found[inode] = (got, sent)
            where += (size + 3) & ~3
        at += (length + 3) & ~3
    return True


def inodes(pids: Iterable[int]) -> set[int]:
    """Sockets that these processes hold open."""
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


class Meter:
    """Bytes of one replica since its start: what open sockets say, plus what closed ones last said."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[int, int]] = {}
        self._closed = (0, 0)

    def update(self, table: dict[int, tuple[int, int]], held: set[int]) -> tuple[int, int]:
        """(received, sent) in bytes; never falls."""
        now = {inode: table[inode] for inode in held if inode in table}
        for inode, (got, sent) in self._open.items():
            if inode not in now or now[inode][0] < got or now[inode][1] < sent:
                self._closed = (self._closed[0] + got, self._closed[1] + sent)
        self._open = now
        got = self._closed[0] + sum(g for g, _ in now.values())
        sent = self._closed[1] + sum(s for _, s in now.values())
        return got, sent
