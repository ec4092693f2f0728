"""Half-open connections on request: the socket accepts clients and never responds.

The gRPC server listens on one socket with two names, the clients' and the admin's (hard links of one file).
The fault replaces the clients' name with another listener; the admin's name remains, to clear the fault.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import Any

from tui.emulator.faults.limit import Limit
from tui.emulator.paths import StateDir

_BACKLOG = 128


class HalfOpen:
    """The fault of one emulator. Use only in the event loop."""

    def __init__(self, state: StateDir) -> None:
        self._state = state
        self._listener: socket.socket | None = None
        self._accepted: list[socket.socket] = []
        self._limit = Limit()
        self._end: asyncio.TimerHandle | None = None

    def set(self, half_open: bool, limit: Limit) -> None:
        """Turn the fault on for the duration of `limit`, or serve the socket again.

        Raises ValueError when the socket has no second name.
        """
        self.close()
        if not half_open:
            return
        if not self._state.admin_socket.exists():
            raise ValueError("half-open connections need a file system with hard links of sockets")
        self._limit = limit
        self._open()
        if limit.lasts:
            self._end = asyncio.get_running_loop().call_later(limit.lasts, self.close)

    def fields(self) -> dict[str, Any]:
        """Return the fields that the admin shows."""
        return {"half_open": self._listener is not None, "left_seconds": self._limit.fields()["left_seconds"]}

    def close(self) -> None:
        """End the fault: accepted connections break, and new connections are served."""
        if self._end is not None:
            self._end.cancel()
            self._end = None
        if self._listener is None:
            return
        asyncio.get_running_loop().remove_reader(self._listener)
        for connection in (self._listener, *self._accepted):
            connection.close()
        self._listener, self._accepted = None, []
        link_socket(self._state)

    def _open(self) -> None:
        place = self._state.socket.with_suffix(".new")
        place.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(place))
        self._listener.listen(_BACKLOG)
        self._listener.setblocking(False)
        place.replace(self._state.socket)
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        assert self._listener is not None
        with contextlib.suppress(BlockingIOError):
            self._accepted.append(self._listener.accept()[0])


def link_admin(state: StateDir) -> None:
    """Give the server's socket a second name, if the file system supports it."""
    with contextlib.suppress(OSError):
        os.link(state.socket, state.admin_socket)


def link_socket(state: StateDir) -> bool:
    """Restore the clients' name of the server's socket. Return False if the admin's name is lost, too."""
    place = state.socket.with_suffix(".new")
    try:
        place.unlink(missing_ok=True)
        os.link(state.admin_socket, place)
        place.replace(state.socket)
    except OSError:
        return False
    return True
