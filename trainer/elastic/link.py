"""Socket between a process and its supervisor, which sends the memberships."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.distributed.wait import StoppedBySignal
from trainer.elastic.membership import Membership, read_membership
from trainer.network.addresses import short_path

_POLL = 0.02


@dataclass(frozen=True, slots=True)
class MembershipNotice:
    """A membership, this node's rank, the store's address and the network interface (both "" if unknown)."""

    membership: Membership
    node: int
    store_address: str
    interface: str


class SupervisorLink:
    """Reads memberships in a thread, which immediately calls `abort` if the step in progress must be
    aborted."""

    def __init__(self, path: str, local_rank: int) -> None:
        self._local_rank = local_rank
        self._sock = socket.socket(socket.AF_UNIX)
        with short_path(Path(path)) as short:
            self._sock.connect(short)
        self._writing, self._changed = threading.Lock(), threading.Condition()
        self._newest: MembershipNotice | None = None
        self.stopping = False
        """Whether all ranks of the run must save and stop."""
        self.abort: Callable[[], None] = lambda: None
        threading.Thread(target=self._read, name="memberships", daemon=True).start()

    @property
    def epoch(self) -> int:
        """Return the epoch of the newest membership; 0 before the first membership."""
        newest = self._newest
        return 0 if newest is None else newest.membership.epoch

    def wait(
        self, after: int, received: Callable[[], int], seconds: float | None = None
    ) -> MembershipNotice | None:
        """Wait for a membership after this epoch; return None after `seconds`.

        Raises:
            StoppedBySignal: after a signal, whose number `received` returns.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            with self._changed:
                if self._newest is not None and self._newest.membership.epoch > after:
                    return self._newest
                self._changed.wait(_POLL)
            if received():
                raise StoppedBySignal(received())
            if deadline is not None and time.monotonic() > deadline:
                return None

    def ready(self, data: str) -> None:
        """Report that this process is ready; `data` is the hash of its data."""
        self._send(ready=data)

    def settled(self, epoch: int, step: int) -> None:
        """Report that this process trains with this membership, from `step` on."""
        self._send(settled=epoch, step=step)

    def broken(self, epoch: int) -> None:
        """Report that this process lost a connection to another process of this membership."""
        self._send(broken=epoch)

    def _send(self, **message: Any) -> None:
        data = json.dumps({"local_rank": self._local_rank, **message}).encode() + b"\n"
        with self._writing:
            self._sock.sendall(data)

    def _read(self) -> None:
        with self._sock.makefile("rb") as lines:
            for line in lines:
                message = json.loads(line)
                if "stop" in message:
                    self.stopping = True
                    continue
                notice = MembershipNotice(
                    read_membership(message["membership"]),
                    message["node"],
                    message["store_address"],
                    message["interface"],
                )
                # Abort before the main thread sees the membership: its new connections must not be closed.
                if notice.membership.urgent:
                    self.abort()
                with self._changed:
                    self._newest = notice
                    self._changed.notify_all()
        # The supervisor ended, so this process must end too.
        os._exit(1)
