"""Names and addresses of this machine's loopback interface, the only ones accepted over TCP."""

from __future__ import annotations

import ipaddress
import re

_HOST = re.compile(r"(?:\[(?P<address>[0-9a-fA-F:.]+)\]|(?P<name>[^:\[\]]*))(?::[0-9]*)?")


def host_only(header: str) -> str:
    """`[::1]:80` → `::1`, `localhost:80` → `localhost`; "" for what is neither NAME nor NAME:PORT."""
    match = _HOST.fullmatch(header)
    return (match["address"] or match["name"]) if match else ""


def is_loopback(host: str) -> bool:
    """Whether `host` is a loopback name or address. Another name may resolve to 127.0.0.1 and is not one."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
