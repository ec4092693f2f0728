"""A leader's calls to absent nodes, in a thread: to connect to an unused address takes long."""

from __future__ import annotations

import contextlib
import json
import socket
import threading

from trainer.elastic import protocol
from trainer.placement.topology import Topology

PERIOD = 1.0
TIMEOUT = 1.0
Address = tuple[str, int]


class Caller:
    """Tells nodes that come back where the run goes on."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._changed, self._stop = threading.Lock(), threading.Event()
        self._to: list[Address] = []
        self._claim, self._port = protocol.Claim(False, 0, 0), 0
        self._thread: threading.Thread | None = None

    def call(self, addresses: list[Address], claim: protocol.Claim, port: int) -> None:
        """Call these from now on, with the leader's claim; it listens at `port`."""
        with self._changed:
            self._to, self._claim, self._port = addresses, claim, port
        if self._to and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="call absent nodes", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(PERIOD):
            with self._changed:
                addresses = list(self._to)
                message = protocol.call(self._topology, self._claim, self._port)
            for address in addresses:
                # Nobody is there yet.
                with contextlib.suppress(OSError), socket.create_connection(address, timeout=TIMEOUT) as sock:
                    sock.sendall(json.dumps(message).encode() + b"\n")
