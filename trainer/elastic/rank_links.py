"""The supervisor's sockets to this node's processes, for memberships and the processes' replies."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path
from typing import Any

from trainer.elastic.context import NewMembership
from trainer.network.addresses import interface_of, short_path
from trainer.network.messages import MessageStream


class RankLinks:
    """Listens below `folder` for one start of a node's processes.

    A process that connects late gets the newest membership.
    """

    def __init__(self, folder: Path, node: int, processes: int, spawn: int) -> None:
        self._node = node
        self.path = folder / f"ranks-{spawn:x}"
        self._server = socket.socket(socket.AF_UNIX)
        with short_path(self.path) as short:
            self._server.bind(short)
        self._server.listen(processes)
        self._server.setblocking(False)
        self._processes = processes
        self._streams: list[MessageStream] = []
        self._announcement: dict[str, Any] | None = None
        self._stopping = False
        self._answers: dict[str, dict[int, dict[str, Any]]] = {"ready": {}, "settled": {}}
        self.data = ""
        """Hash of the data of these processes, once all are ready."""
        self.broken = 0
        """Newest membership in which a process lost connections."""

    def tell(self, led: NewMembership) -> None:
        self._announcement = {
            "membership": led.membership.message(),
            "node": self._node,
            "store_address": led.store_address,
            "interface": interface_of(led.own_address),
        }
        for stream in self._streams:
            stream.send(**self._announcement)

    def stop(self) -> None:
        """Request that the processes save and stop."""
        self._stopping = True
        for stream in self._streams:
            stream.send(stop=True)

    def poll(self) -> None:
        """Read the messages of the processes."""
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._server.accept()
                self._streams.append(MessageStream(sock))
                if self._announcement is not None:
                    self._streams[-1].send(**self._announcement)
                if self._stopping:
                    self._streams[-1].send(stop=True)
        for stream in self._streams:
            for message in stream.receive():
                self._read(message)

    def _read(self, message: dict[str, Any]) -> None:
        local_rank = message["local_rank"]
        if "broken" in message:
            self.broken = max(self.broken, message["broken"])
        for kind, answers in self._answers.items():
            if kind in message:
                answers[local_rank] = message

    @property
    def ready(self) -> bool:
        """Whether all processes are prepared."""
        answers = self._answers["ready"]
        if len(answers) == self._processes:
            self.data = answers[0]["ready"]
        return len(answers) == self._processes

    @property
    def settled(self) -> tuple[int, int]:
        """The membership with which all processes train, and their first step with it; (0, 0) before they
        train."""
        answers = self._answers["settled"].values()
        if len(answers) < self._processes:
            return 0, 0
        return min((answer["settled"], answer["step"]) for answer in answers)

    def close(self) -> None:
        for stream in self._streams:
            stream.close()
        self._server.close()
        self.path.unlink(missing_ok=True)
