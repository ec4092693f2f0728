"""Starts a node's peer-copy store for the supervisor, and publishes its address."""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict

from trainer.checkpoint.peers.connection import STORE, StoreAddress
from trainer.checkpoint.peers.server import StoreSettings
from trainer.network.addresses import listen_on, local_address
from trainer.placement.topology import Topology
from trainer.structured_log import emit


class StoreProcess:
    """The process of a peer-copy store. The process takes over the listening socket with all pending
    connections. No method raises."""

    def __init__(self, topology: Topology, keep: int) -> None:
        self._settings = StoreSettings(topology.node_rank, topology.nodes, keep, secrets.token_hex(32))
        self._listener: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def variables(self, address: str) -> dict[str, str]:
        """Return the variables for the training processes of an attempt; `address` is this node's address for
        other nodes."""
        if not address or not self._ensure(address):
            return {}
        assert self._listener is not None
        settings, port = self._settings, int(self._listener.getsockname()[1])
        where = StoreAddress(settings.node, address, port, settings.key)
        return {STORE: json.dumps(where.to_json())}

    def close(self) -> None:
        """End the process and free its memory."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._listener is not None:
            self._listener.close()

    def _ensure(self, address: str) -> bool:
        """Start the process at this address unless it already runs there; return False if it can't start.
        When memory runs out, the kernel kills this process first."""
        if self._listener is not None and local_address(self._listener) != address:
            self.close()
            self._listener = None
        elif self._process is not None and self._process.poll() is None:
            return True
        try:
            if self._listener is None:
                self._listener = listen_on(address, 0)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "trainer.checkpoint.peers.server", str(self._listener.fileno())],
                stdin=subprocess.PIPE,
                pass_fds=[self._listener.fileno()],
            )
        except OSError as error:
            text = f"this node keeps no copies of another node's checkpoints: {error.strerror or error}"
            emit("phase", text, severity="WARNING", phase="checkpoint")
            return False
        assert self._process.stdin is not None
        # Send the key through stdin, because other users of the machine can read the arguments. OSError means
        # that the process has ended.
        with suppress(OSError), self._process.stdin as stdin:
            stdin.write(json.dumps(asdict(self._settings)).encode())
        return True
