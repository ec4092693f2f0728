"""Server of one emulated cluster: `python -m tui.emulator.kubernetes --state-dir DIR`.

The server ends on SIGTERM or SIGINT. The pods' processes continue, and the next server adopts them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import socket
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tui import __version__
from tui.emulator import process
from tui.emulator.kubernetes.admission.admit import Admission
from tui.emulator.kubernetes.admission.definitions import store_definitions
from tui.emulator.kubernetes.api.admin import KubernetesAdmin
from tui.emulator.kubernetes.api.app import Api
from tui.emulator.kubernetes.api.checks.faults import ClusterApiFaults
from tui.emulator.kubernetes.certificates import (
    ensure_certificates,
    ensure_token,
    write_kubeconfig,
    write_private,
)
from tui.emulator.kubernetes.config import KubernetesConfig, load_kubernetes_config
from tui.emulator.kubernetes.database import ObjectDatabaseError
from tui.emulator.kubernetes.node.build import BackgroundTask
from tui.emulator.kubernetes.node.build import build as build_nodes
from tui.emulator.kubernetes.node.routes import NodeRoutes
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.operators.controllers import controllers
from tui.emulator.kubernetes.operators.namespaces import NamespaceController
from tui.emulator.kubernetes.operators.webhooks import Webhooks
from tui.emulator.kubernetes.paths import CLUSTER, KubernetesState
from tui.emulator.kubernetes.resources import NAMESPACES, Obj
from tui.emulator.lock import hold, write_info
from tui.emulator.rpc.http_server import serve_http
from tui.emulator.rpc.loopback import HOST, listen
from tui.emulator.storage.server import BucketServer

log = logging.getLogger(__name__)

EXPIRY_SECONDS = 60.0
"""Interval of the expiry of old Events."""
_BACKLOG = 128


class KubernetesEmulator(process.Server[KubernetesState]):
    """One running API with its controllers; an async context manager, which tests use too."""

    def __init__(self, state: KubernetesState, config: KubernetesConfig | None = None) -> None:
        super().__init__(state)
        self.config = config or KubernetesConfig.model_validate({})
        self.objects = Objects(state.database, history=self.config.history)
        self.objects.admit = Webhooks(self.objects, Admission(self.objects))
        self.faults = ClusterApiFaults()
        self.node = build_nodes(self.objects, self.config, state)
        self.buckets = BucketServer(state, "0")
        self.url = ""

    @property
    def listens_on(self) -> str:
        """The API's URL for the log."""
        return self.url

    def reachable(self) -> bool:
        """Return whether this server still holds the state directory."""
        return self._lock.held

    def info(self) -> Obj:
        """Return the contents of `emulator.json`."""
        return {
            "pid": os.getpid(),
            "server": self.url,
            "kubeconfig": str(self.state.kubeconfig),
            "context": CLUSTER,
            "socket": str(self.state.socket),
            "state_dir": str(self.state.root),
            "started_at": self._started_at,
            "version": __version__,
        }

    async def _start(self) -> None:
        state, stack = self.state, self._stack
        hold(self._lock, stack, state.socket, state.info)
        ensure_certificates(state)
        token = ensure_token(state)
        self.objects.open()
        stack.callback(self.objects.close)
        self._create_namespaces()
        # Start the buckets before the pods, whose programs get the address.
        self.buckets.open()
        stack.push_async_callback(self.buckets.close)
        store_definitions(self.objects)
        stored_port = _stored_port(state.address)
        listener = listen(stored_port)
        stack.callback(listener.close)
        port = listener.getsockname()[1]
        if stored_port and port != stored_port:
            log.warning("port %d of the API is taken; choosing another port", stored_port)
        write_private(state.address, (json.dumps({"port": port}) + "\n").encode())
        self.url = f"https://{HOST}:{port}"
        write_kubeconfig(state, self.url, token)
        routes = NodeRoutes(self.node).routes()
        api = Api(self.objects, self.config, token, faults=self.faults, routes=routes)
        admin = KubernetesAdmin(self.objects, self.faults, self.info, self.node.faults.verbs())
        for controller in self._controllers():
            self._run(controller)
        self._spawn(self._expire_events(), "expiry of events")
        await self._serve(api.app(), listener, tls=True)
        await self._serve(admin.app(), _bind_unix(state.socket), tls=False)
        # Runs first at the end, since the servers wait for replies in progress.
        stack.callback(api.end_watches)
        self._started_at = datetime.now(UTC).isoformat(timespec="seconds")
        write_info(state, self.info())

    def _controllers(self) -> Sequence[BackgroundTask]:
        return [
            NamespaceController(self.objects),
            *self.node.controllers,
            *controllers(self.objects, self.config),
        ]

    def _create_namespaces(self) -> None:
        present = {obj["metadata"]["name"] for obj in self.objects.list(NAMESPACES)}
        for name in self.config.namespaces:
            if name not in present:
                self.objects.create(NAMESPACES, {"metadata": {"name": name}})

    def _run(self, controller: BackgroundTask) -> None:
        self._spawn(controller.run(), controller.name)

    def _spawn(self, work: Any, name: str) -> None:
        async def guarded() -> None:
            try:
                await work
            except Exception:
                # Stop the server, because nothing else would replace the failed task.
                log.exception("%s has ended", name)
                self.stopping.set()

        task = asyncio.create_task(guarded(), name=name)

        async def end() -> None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

        self._stack.push_async_callback(end)

    async def _expire_events(self) -> None:
        while True:
            self.objects.expire_events()
            await asyncio.sleep(EXPIRY_SECONDS)

    async def _serve(self, app: Any, listener: socket.socket, *, tls: bool) -> None:
        server = await serve_http(
            app,
            listener,
            "https" if tls else "admin",
            date_header=True,
            ws="wsproto" if tls else "none",
            ssl_keyfile=str(self.state.tls / "server.key") if tls else None,
            ssl_certfile=str(self.state.tls / "server.crt") if tls else None,
        )
        self._stack.push_async_callback(server.close)


def _stored_port(path: Path) -> int:
    try:
        return int(json.loads(path.read_bytes())["port"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _bind_unix(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


async def serve(state: KubernetesState) -> None:
    """Run until `stopping` is set."""
    await process.serve_until_stopped(KubernetesEmulator(state, load_kubernetes_config(state.config)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server. Return 0 after a clean stop, or 1 with a message on stderr if it can't start."""
    parser = argparse.ArgumentParser(prog="python -m tui.emulator.kubernetes", description=__doc__)
    parser.add_argument("--state-dir", type=Path, required=True, help="directory of this server's state")
    state = KubernetesState(parser.parse_args(arguments).state_dir.absolute())
    return process.run(state, lambda: serve(state), ObjectDatabaseError)
