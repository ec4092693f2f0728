"""The process of a node's peer-copy store: `python -m trainer.checkpoint.peers.server`, started by `process`.

The process does not import torch. The process runs as long as the supervisor, so the copies survive an
attempt.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainer.checkpoint.peers.connection import PeerConnection, PeerError, StoreAddress
from trainer.checkpoint.peers.sender import Sender
from trainer.checkpoint.peers.store import CopyStore, check_part, read_manifest
from trainer.network import handshake
from trainer.network.addresses import without_prefix
from trainer.network.rejected_connections import RejectionLog
from trainer.prctl import die_with_parent, set_process_name

_MAX_CONNECTIONS = 64
_PAUSE = 0.05
_NICE = 10
"""Niceness of the process, which lowers its priority below that of the training."""
_OOM_SCORE = 1000
"""OOM score adjustment: when memory is short, the kernel kills this process instead of the training."""


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Settings of a node's store: it holds `keep` copies of the previous node, for processes with `key`."""

    node: int
    nodes: int
    keep: int
    key: str = field(repr=False)


class PeerStoreServer:
    """Serves each connection in a thread."""

    def __init__(self, settings: StoreSettings, copies: CopyStore | None = None) -> None:
        self._settings, self._sender = settings, Sender()
        self._copies = copies or CopyStore(settings.keep)
        self._before = (settings.node - 1) % settings.nodes
        """The node whose copies this store holds."""
        self._free_threads = threading.BoundedSemaphore(_MAX_CONNECTIONS)
        self._rejections = RejectionLog("checkpoint", "the peer may not read the copies")
        self._receives: PeerConnection | None = None
        """The connection that is currently sending a copy; None if there is none."""

    def serve(self, listener: socket.socket) -> None:
        """Serve until the socket is shut down."""
        listener.setblocking(True)
        while True:
            try:
                sock, peer = listener.accept()
            except OSError as error:
                if error.errno in {errno.EINVAL, errno.EBADF}:
                    return
                # The peer has disconnected, or this process has no free descriptor for a moment.
                time.sleep(_PAUSE)
                continue
            if not self._free_threads.acquire(blocking=False):
                sock.close()
                continue
            connection = PeerConnection(sock, without_prefix(peer[0]))
            threading.Thread(target=self._serve, args=[connection], name=connection.peer, daemon=True).start()

    def _serve(self, connection: PeerConnection) -> None:
        try:
            with connection:
                self._answer(connection)
        except PeerError:
            # The peer has disconnected: it retries.
            return
        finally:
            self._free_threads.release()

    def _answer(self, connection: PeerConnection) -> None:
        try:
            connection.prove(self._settings.key, handshake.SECONDS, serves=True)
        except PeerError as error:
            self._rejections.report(connection.peer, str(error))
            return
        request = connection.receive() or {}
        answers = {"put": self._put, "fetch": self._fetch, "list": self._list, "copy": self._copy}
        answer = answers.get(str(request.get("request")))
        try:
            if answer is None:
                raise PeerError("the store does not know this request")
            answer(connection, request)
        except PeerError as error:
            connection.send(refused=str(error))

    def _put(self, connection: PeerConnection, request: dict[str, Any]) -> None:
        """Receive a copy; other requests see only complete copies."""
        manifest = read_manifest(request.get("manifest"))
        check_part(manifest, self._before)
        if self._copies.find(manifest.node, manifest.saved) is not None:
            connection.send(present=True)
            return
        earlier, self._receives = self._receives, connection
        if earlier is not None:
            # The sender's node restarted, or the run has a newer checkpoint.
            earlier.close()
        try:
            copy = self._copies.make_room(manifest)
            connection.send(accepted=True)
            copy.receive(connection)
        finally:
            if self._receives is connection:
                self._receives = None
        self._copies.add(copy)
        connection.send(stored=True)

    def _fetch(self, connection: PeerConnection, request: dict[str, Any]) -> None:
        node, saved = request.get("node"), request.get("saved")
        copy = self._copies.find(node, saved) if isinstance(node, int) and isinstance(saved, float) else None
        if copy is None:
            raise PeerError("the copy is no longer in memory")
        connection.send(manifest=copy.manifest.to_json())
        for _, view in copy.files():
            connection.send_bytes(view)

    def _list(self, connection: PeerConnection, _: dict[str, Any]) -> None:
        manifests = self._copies.manifests()
        connection.send(copies=len(manifests))
        for manifest in manifests:
            connection.send(manifest=manifest.to_json())

    def _copy(self, connection: PeerConnection, request: dict[str, Any]) -> None:
        """Send a checkpoint of this node to the next node, on the request of a local process."""
        if not connection.is_local:
            raise PeerError("only a process of this node may request a transfer")
        self._sender.offer(Path(str(request.get("folder"))), StoreAddress.from_json(request.get("to")))
        connection.send(offered=True)


def main() -> int:
    """Serve until the supervisor ends. `sys.argv`: the descriptor of a listening socket; stdin: settings."""
    die_with_parent()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # The supervisor decides when this process ends.
        signal.signal(number, signal.SIG_IGN)
    set_process_name("peer-copies")
    os.nice(_NICE)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE))
    settings = StoreSettings(**json.loads(sys.stdin.read()))
    PeerStoreServer(settings).serve(socket.socket(fileno=int(sys.argv[1])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
