"""The one process of a Kubernetes API: `python -m tui.emulator.kubernetes --state-dir DIR`.

It ends on SIGTERM or SIGINT; the pods' processes continue, and the next server takes them up.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import logging.handlers
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvicorn

from tui import __version__
from tui.emulator.config import ConfigError
from tui.emulator.kubernetes.admission.admit import Admission
from tui.emulator.kubernetes.admission.definitions import store_definitions
from tui.emulator.kubernetes.api.admin import Admin
from tui.emulator.kubernetes.api.app import Api
from tui.emulator.kubernetes.api.checks.faults import Faults
from tui.emulator.kubernetes.certificates import (
    ensure_certificates,
    ensure_token,
    write_kubeconfig,
    write_private,
)
from tui.emulator.kubernetes.config import KubernetesConfig, load_kubernetes_config
from tui.emulator.kubernetes.database import DatabaseError
from tui.emulator.kubernetes.namespaces import NamespaceController
from tui.emulator.kubernetes.node.parts import Part
from tui.emulator.kubernetes.node.parts import build as node_parts
from tui.emulator.kubernetes.node.routes import NodeRoutes
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.operators import parts as operators
from tui.emulator.kubernetes.operators.webhooks import Webhooks
from tui.emulator.kubernetes.paths import CLUSTER, KubernetesState
from tui.emulator.kubernetes.resources import NAMESPACES
from tui.emulator.lock import Lock, remove_stale_files, write_info
from tui.emulator.paths import StateDirError
from tui.emulator.storage.server import BucketServer

log = logging.getLogger(__name__)

HOST = "127.0.0.1"
CHECK_SECONDS = 1.0
"""Between two checks that the state directory is still this server's."""
EXPIRY_SECONDS = 60.0
"""Between two looks for old Events."""
_BACKLOG = 128


class KubernetesEmulator:
    """One running API with its controllers; use it as an async context manager, in a test as well."""

    def __init__(self, state: KubernetesState, config: KubernetesConfig | None = None) -> None:
        self.state = state
        self.config = config or KubernetesConfig.model_validate({})
        self.objects = Objects(state.database, history=self.config.history)
        self.objects.admit = Webhooks(self.objects, Admission(self.objects))
        self.faults = Faults()
        self.node = node_parts(self.objects, self.config, state)
        self.buckets = BucketServer(state, "0")
        self.stopping = asyncio.Event()
        """Set when the server has to end; its owner then closes it."""
        self.url = ""
        self._lock = Lock(state)
        self._started_at = ""
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> KubernetesEmulator:
        """Start everything, or nothing.

        Raises:
            StateDirError: when the state directory can't be used (EmulatorBusy: another server has it).
            DatabaseError: when the stored state can't be read.
            OSError: for a full disk, or when no port is free.
        """
        self.state.prepare()
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def held(self) -> bool:
        """Whether the state directory is still this server's."""
        return self._lock.held

    def info(self) -> dict[str, Any]:
        """Contents of `emulator.json`."""
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
        self._lock.acquire()
        stack.callback(self._lock.release)
        # With the lock held, these files belong to a server that has ended.
        files = state.socket, state.info
        remove_stale_files(*files)
        stack.callback(lambda: remove_stale_files(*files) if self._lock.held else None)
        ensure_certificates(state)
        token = ensure_token(state)
        self.objects.open()
        stack.callback(self.objects.close)
        self._create_namespaces()
        # Before the pods: their programs have the address.
        self.buckets.open()
        stack.push_async_callback(self.buckets.close)
        store_definitions(self.objects)
        listener = _bind(_stored_port(state.address))
        stack.callback(listener.close)
        port = listener.getsockname()[1]
        write_private(state.address, (json.dumps({"port": port}) + "\n").encode())
        self.url = f"https://{HOST}:{port}"
        write_kubeconfig(state, self.url, token)
        routes = NodeRoutes(self.node).routes()
        api = Api(self.objects, self.config, token, faults=self.faults, routes=routes)
        admin = Admin(self.objects, self.faults, self.info, self.node.faults.verbs())
        for controller in self._controllers():
            self._run(controller)
        self._spawn(self._expire_events(), "expiry of events")
        await self._serve(api.app(), listener, tls=True)
        await self._serve(admin.app(), _bind_unix(state.socket), tls=False)
        # First of all at the end: the servers wait for the replies in progress.
        stack.callback(api.end_watches)
        self._started_at = datetime.now(UTC).isoformat(timespec="seconds")
        write_info(state, self.info())

    def _controllers(self) -> Sequence[Part]:
        return [
            NamespaceController(self.objects),
            *self.node.controllers,
            *operators.controllers(self.objects, self.config),
        ]

    def _create_namespaces(self) -> None:
        present = {obj["metadata"]["name"] for obj in self.objects.list(NAMESPACES)}
        for name in self.config.namespaces:
            if name not in present:
                self.objects.create(NAMESPACES, {"metadata": {"name": name}})

    def _run(self, controller: Part) -> None:
        self._spawn(controller.run(), controller.name)

    def _spawn(self, work: Any, name: str) -> None:
        async def guarded() -> None:
            try:
                await work
            except Exception:
                # Without one of its parts the rest would wait for ever: the log says which ended.
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
        server = _Server(uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", server_header=False, date_header=True,
            ws="wsproto" if tls else "none", http="h11", timeout_graceful_shutdown=1, timeout_keep_alive=75,
            ssl_keyfile=str(self.state.tls / "server.key") if tls else None,
            ssl_certfile=str(self.state.tls / "server.crt") if tls else None,
        ))  # fmt: skip
        task = asyncio.create_task(server.serve(sockets=[listener]), name="https" if tls else "admin")

        async def end() -> None:
            server.should_exit = True
            await task

        self._stack.push_async_callback(end)
        ready = asyncio.create_task(server.ready.wait())
        self._stack.callback(ready.cancel)
        await asyncio.wait((task, ready), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
            raise OSError("the HTTP server did not start")


class _Server(uvicorn.Server):
    """Says when it is ready; the process handles the signals itself."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield


def _stored_port(path: Path) -> int:
    try:
        return int(json.loads(path.read_bytes())["port"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _bind(port: int) -> socket.socket:
    """Bind the given port, or any other where it is taken. Raises OSError."""
    for wanted in dict.fromkeys((port, 0)):
        # asyncio sends small parts at once (TCP_NODELAY) only where the protocol is given.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((HOST, wanted))
            listener.listen(_BACKLOG)
            listener.setblocking(False)
            return listener
        except OSError:
            listener.close()
            if not wanted:
                raise
            log.warning("port %d of the API is taken: it gets another one", wanted)
    raise AssertionError


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
    emulator = KubernetesEmulator(state, load_kubernetes_config(state.config))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, emulator.stopping.set)
    async with emulator:
        log.info("ready on %s", emulator.url)
        while not emulator.stopping.is_set() and emulator.held:
            # A server that no client can find must not keep another one from starting.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await emulator.stopping.wait()
        log.info("stopping")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server. Exit code 0 after a clean stop, 1 with a message on stderr when it can't start."""
    parser = argparse.ArgumentParser(prog="python -m tui.emulator.kubernetes", description=__doc__)
    parser.add_argument("--state-dir", type=Path, required=True, help="directory of this server's state")
    options = parser.parse_args(arguments)
    os.umask(0o077)
    state = KubernetesState(options.state_dir.absolute())
    try:
        state.prepare()
        _log_to(state)
        asyncio.run(serve(state))
    except (StateDirError, ConfigError, DatabaseError) as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(f"can't start in {state.root}: {error.strerror or error}")
    return 0


def _refuse(why: str) -> int:
    # Without the log file the record would go to stderr too.
    if logging.getLogger().handlers:
        log.error("%s", why)
    print(f"{KubernetesState.COMMAND}: {why}", file=sys.stderr)  # noqa: T201
    return 1


def _log_to(state: KubernetesState) -> None:
    # On a full disk, logging must not write tracebacks to the terminal.
    logging.raiseExceptions = False
    handler = logging.handlers.RotatingFileHandler(state.log, maxBytes=5_000_000, backupCount=1, delay=True)
    formatter = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
