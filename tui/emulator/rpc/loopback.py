"""Loopback names and addresses of this machine. TCP servers accept no others."""

from __future__ import annotations

import ipaddress
import re
import socket

HOST = "127.0.0.1"
_BACKLOG = 128
_HOST = re.compile(r"(?:\[(?P<address>[0-9a-fA-F:.]+)\]|(?P<name>[^:\[\]]*))(?::[0-9]*)?")


def host_only(header: str) -> str:
    """Return the host of NAME or NAME:PORT, or "" for any other text: `[::1]:80` → `::1`, `localhost:80` →
    `localhost`."""
    match = _HOST.fullmatch(header)
    return (match["address"] or match["name"]) if match else ""


def is_loopback(host: str) -> bool:
    """Return whether `host` is a loopback name or address. Names that resolve to 127.0.0.1 are refused."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(port: int) -> socket.socket:
    """Listen on this port of `HOST`, or on any free port if the port is in use. Raises OSError."""
    for candidate in dict.fromkeys((port, 0)):
        # asyncio sends small parts at once (TCP_NODELAY) only if the protocol is set.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((HOST, candidate))
            listener.listen(_BACKLOG)
            listener.setblocking(False)
            return listener
        except OSError:
            listener.close()
            if not candidate:
                raise
    raise AssertionError
