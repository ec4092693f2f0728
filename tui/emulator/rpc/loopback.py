"""Names and addresses of this machine's loopback interface: nobody else is let in over TCP."""

from __future__ import annotations

import ipaddress


def host_only(header: str) -> str:
    """`[::1]:80` → `::1`, `localhost:80` → `localhost`."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


def is_loopback(host: str) -> bool:
    """A web page can point a name of its own at 127.0.0.1; that is none of these."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
