"""Addresses, interfaces and ports of this machine."""

from __future__ import annotations

import contextlib
import fcntl
import random
import socket
import struct

_GET_ADDRESS = 0x8915
"""SIOCGIFADDR: the IPv4 address of an interface."""
_LISTENERS = range(20_000, 30_000)


def local_address(sock: socket.socket) -> str:
    """This machine's end of a connection: the address at which the peer's packets arrive."""
    try:
        return without_prefix(str(sock.getsockname()[0]))
    except (OSError, IndexError):
        # Closed, or not a network connection.
        return ""


def without_prefix(address: str) -> str:
    """An IPv4 address as such, if a dual-stack socket shows it as IPv6."""
    return address.removeprefix("::ffff:")


def interface_of(address: str) -> str:
    """The network interface with this IPv4 address, or ""."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(probe, _GET_ADDRESS, struct.pack("256s", name.encode()[:15]))
                if socket.inet_ntoa(answer[20:24]) == address:
                    return name
    return ""


def listen_on(port: int) -> socket.socket:
    """Listen on IPv4, and on IPv6 if this machine has it. Raises OSError."""
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=512)
    return socket.create_server(("", port), backlog=512)


def free_port() -> int:
    """A port that is free now, below those that Linux gives to outgoing connections (from 32,768).

    Otherwise an outgoing connection could take it before its listener does. If another listener takes it
    first, the attempt fails and the next one uses another port. Raises OSError if none is free.
    """
    for port in random.SystemRandom().choices(_LISTENERS, k=1000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            # As torch's store does: a port of a connection that just ended counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("", port))
            return port
    raise OSError(f"no port from {_LISTENERS.start} to {_LISTENERS.stop - 1} is free")
