"""Addresses, interfaces and ports of this machine."""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import os
import random
import socket
import struct
from collections.abc import Collection, Iterator
from pathlib import Path

LOOPBACK = "127.0.0.1"
LISTEN = "VXTUI_LISTEN"
"""Variable with the address at which this machine listens, instead of `listening_address`."""
_GET_ADDRESS = 0x8915
"""SIOCGIFADDR: the IPv4 address of an interface."""
_LISTENERS = range(20_000, 30_000)
_BACKLOG = 512
_GLOBAL = "00"
"""Scope of an IPv6 address that other networks reach."""


def local_address(sock: socket.socket) -> str:
    """Return this machine's address in a connection, at which the peer's packets arrive."""
    try:
        return without_prefix(str(sock.getsockname()[0]))
    except (OSError, IndexError):
        # The socket is closed, or not a network connection.
        return ""


def without_prefix(address: str) -> str:
    """Return the IPv4 address without the prefix that a dual-stack socket adds; any other address
    unchanged."""
    return address.removeprefix("::ffff:")


def is_loopback(host: str) -> bool:
    """Return whether this is a loopback address. A name is not: another machine may resolve it otherwise."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def on_one_machine(peers: Collection[str]) -> bool:
    """Return whether all known hosts of a run are on this machine. In a pod, node 0 may be called localhost
    in its own variables while the other nodes are elsewhere."""
    if chosen := os.environ.get(LISTEN):
        return is_loopback(chosen)
    return all(map(is_loopback, peers)) and (len(peers) > 1 or "KUBERNETES_SERVICE_HOST" not in os.environ)


def _interfaces() -> dict[str, str]:
    """Return the interfaces of this machine by their IPv4 addresses."""
    names = dict[str, str]()
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(probe, _GET_ADDRESS, struct.pack("256s", name.encode()[:15]))
                names[socket.inet_ntoa(answer[20:24])] = name
    return names


def interface_of(address: str) -> str:
    """Return the network interface with this IPv4 address, or "" if there is none."""
    return _interfaces().get(address, "")


def _own_addresses() -> set[str]:
    """Return the addresses of this machine that other machines may be able to reach."""
    addresses = {address for address in _interfaces() if not is_loopback(address)}
    with contextlib.suppress(OSError):
        for line in Path("/proc/net/if_inet6").read_text().splitlines():
            number, _, _, scope, *_ = line.split()
            if scope == _GLOBAL:
                addresses.add(str(ipaddress.IPv6Address(bytes.fromhex(number))))
    return addresses


def listening_address(peers: Collection[str], own_name: str) -> str:
    """Return the narrowest address at which the nodes of a run reach this machine, or "" for all, if that is
    unclear.

    `peers` are the known hosts of the run, and `own_name` is this machine's name among them, or "" if it is
    unknown. On Vertex AI a name belongs to a service, whose packets arrive at the pod's only address
    (docs/facts/vertex.md 3.3). A name that resolves to the loopback, as in Debian's /etc/hosts, does not show
    the address that the others use.
    """
    if chosen := os.environ.get(LISTEN):
        return chosen
    if on_one_machine(peers):
        return LOOPBACK
    resolved = set[str]()
    with contextlib.suppress(OSError, UnicodeError):
        resolved = {str(info[4][0]) for info in socket.getaddrinfo(own_name, None)} if own_name else set()
    own = _own_addresses()
    if any(map(is_loopback, resolved)):
        return ""
    candidates = resolved & own or own
    return candidates.pop() if len(candidates) == 1 else ""


def listen_on(address: str, port: int) -> socket.socket:
    """Listen at this address. "" means all IPv4 addresses, and all IPv6 addresses if this machine has IPv6.
    Raises OSError."""
    if not address and socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return socket.create_server(
                ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG
            )
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, port), family=family, backlog=_BACKLOG)


@contextlib.contextmanager
def short_path(path: Path) -> Iterator[str]:
    """Return a short path to a socket through a descriptor of its folder: the kernel allows at most 107
    bytes."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def peer_user(host: str, port: int, own_port: int) -> int | None:
    """Return the user id of a loopback connection's client process, or `None` if the client has exited."""
    client = f"{int.from_bytes(socket.inet_aton(host), 'little'):08X}:{port:04X}"
    with contextlib.suppress(OSError):
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            _, local, remote, _, _, _, _, user, *_ = line.split()
            if local == client and remote.endswith(f":{own_port:04X}"):
                return int(user)
    return None


def free_port() -> int:
    """Return a port that is free now, below Linux's ports for outgoing connections (from 32,768).

    An outgoing connection could take a higher port before its listener does. If another listener takes the
    port first, the attempt fails and the next attempt uses another port. Raises OSError if no port is free.
    """
    for port in random.SystemRandom().choices(_LISTENERS, k=1000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            # As in torch's store, the port of a connection that just ended counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("", port))
            return port
    raise OSError(f"no port from {_LISTENERS.start} to {_LISTENERS.stop - 1} is free")
