"""A store for torch.distributed whose waits end as soon as another membership is known."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from datetime import timedelta

import torch.distributed as dist

from trainer.network.addresses import listen_on

_POLL = 0.002
_CONNECT_POLL = 0.05
_SERVER_TIMEOUT = timedelta(seconds=10)
"""Timeout of one request, which never waits for a key."""


class Superseded(RuntimeError):
    """The process groups of a membership were not created: another membership replaces it."""


class AbortableStore(dist.Store):
    """A TCPStore whose waits can be aborted; torch's wait for a key continues after the loss of the rank that
    sets it."""

    def __init__(
        self, address: str, port: int, *, serves: bool, superseded: Callable[[], bool], timeout: float
    ) -> None:
        """Connect to rank 0, which `serves`; `timeout` limits this wait and each wait for a key, in seconds.

        Raises:
            Superseded: as soon as `superseded` is true, here and in each wait.
            TimeoutError: after `timeout` seconds.
        """
        super().__init__()
        self._superseded, self._seconds = superseded, timeout
        if not serves:
            self._wait_until(lambda: _answers(address, port), f"rank 0 at {address}:{port}", _CONNECT_POLL)
        self._inner = dist.TCPStore(
            address,
            port,
            None,
            serves,
            _SERVER_TIMEOUT,
            wait_for_workers=False,
            master_listen_fd=listen_on(address, port).detach() if serves else None,
        )

    def _wait_until(self, done: Callable[[], bool], awaited: str, pause: float) -> None:
        deadline = time.monotonic() + self._seconds
        while not done():
            if self._superseded():
                raise Superseded("another membership is known")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{awaited} did not appear within {self._seconds:.0f} s")
            time.sleep(pause)

    def set(self, key: str, value: str) -> None:
        self._inner.set(key, value)

    def get(self, key: str) -> bytes:
        self.wait([key])
        return self._inner.get(key)

    def add(self, key: str, value: int) -> int:
        return self._inner.add(key, value)

    def check(self, keys: list[str]) -> bool:
        return self._inner.check(keys)

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        self._wait_until(lambda: self._inner.check(keys), f"{keys[0]} in the store", _POLL)

    def compare_set(self, key: str, expected: str, value: str) -> bytes:
        return self._inner.compare_set(key, expected, value)

    def delete_key(self, key: str) -> bool:
        return self._inner.delete_key(key)

    def num_keys(self) -> int:
        return self._inner.num_keys()

    def set_timeout(self, timeout: timedelta) -> None:
        self._seconds = timeout.total_seconds()


def _answers(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=1).close()
    except OSError:
        return False
    return True
