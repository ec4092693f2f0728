"""Names and addresses of this machine's loopback interface, the only ones accepted over TCP."""

from __future__ import annotations

import ipaddress


def host_only(header: str) -> str:
    """`[::1]:80` → `::1`, `localhost:80` → `localhost`."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


def is_loopback(host: str) -> bool:
    """Whether `host` is a loopback name or address. Another name may resolve to 127.0.0.1 and is not one."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
