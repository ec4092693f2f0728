"""A cut network between replicas: packets between their TCP sockets are dropped, without a reset.

A filter that accepts no packet is attached to a duplicate of each socket. Attaching the filter needs no root,
because the replicas descend from the runner. After the cut TCP sends what was lost again. Standard library
only.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path

_PIDFD_GETFD = 438
_ATTACH_FILTER, _DETACH_FILTER = 26, 27
_INTERNET = frozenset({socket.AF_INET, socket.AF_INET6})
_LIBC = ctypes.CDLL(None, use_errno=True)
_NOTHING = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0))
"""One instruction of classic BPF: accept 0 bytes."""
_PROGRAM = struct.pack("HP", 1, ctypes.addressof(_NOTHING))


def apply(pids: Mapping[str, Iterable[int]], cut: Set[str]) -> None:
    """Drop the packets between each replica of `cut` and all others; packets of other pairs pass.

    Call `apply` again to include new connections. `pids` are the processes by replica. Raises OSError if the
    kernel refuses.
    """
    with contextlib.ExitStack() as stack:
        sockets = [(name, sock) for name, group in pids.items() for pid in group for sock in _tcp(pid, stack)]
        owners = {_address(sock.getsockname()): replica for replica, sock in sockets}
        for replica, sock in sockets:
            with contextlib.suppress(OSError):  # not connected, or without a filter
                other = owners.get(_address(sock.getpeername()), replica)
                if replica != other and cut & {replica, other}:
                    sock.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, _PROGRAM)
                elif replica != other:
                    sock.setsockopt(socket.SOL_SOCKET, _DETACH_FILTER, 0)


def _tcp(pid: int, stack: contextlib.ExitStack) -> Iterator[socket.socket]:
    """Yield duplicates of the TCP sockets of a process, which `stack` closes."""
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        handle = os.pidfd_open(pid)
        stack.callback(os.close, handle)
        for file in Path(f"/proc/{pid}/fd").iterdir():
            if not str(file.readlink()).startswith("socket:"):
                continue
            copy = _LIBC.syscall(_PIDFD_GETFD, handle, int(file.name), 0)
            if copy < 0 and ctypes.get_errno() != errno.EBADF:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            sock = stack.enter_context(socket.socket(fileno=copy)) if copy >= 0 else None
            if sock and sock.family in _INTERNET and sock.type == socket.SOCK_STREAM:
                yield sock


def _address(name: tuple[str, int]) -> tuple[str, int]:
    return name[0].removeprefix("::ffff:"), name[1]
