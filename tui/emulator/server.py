"""The emulator's server process: `python -m tui.emulator --state-dir DIR [--rest HOST:PORT] [--no-auth]`.

The process ends on SIGTERM, SIGINT or the admin's stop. The jobs' runners continue, and the next server
resumes them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc

from tui import __version__
from tui.emulator import process
from tui.emulator.admin import Admin
from tui.emulator.config import EmulatorConfig, load_config
from tui.emulator.database import Database, DatabaseError
from tui.emulator.fault_targets import Targets
from tui.emulator.faults.api import ApiFaults
from tui.emulator.faults.disk import DiskFault
from tui.emulator.faults.half_open import HalfOpen, link_admin, link_socket
from tui.emulator.faults.table import FAULTS
from tui.emulator.interfaces import project_number
from tui.emulator.kinds.table import open_tables
from tui.emulator.lock import hold, write_info
from tui.emulator.parts import open_parts
from tui.emulator.paths import StateDir, StateDirError
from tui.emulator.rpc.loopback import is_loopback
from tui.emulator.rpc.methods import Method, grpc_handlers
from tui.emulator.rpc.project_names import translated
from tui.emulator.runs.images import ProgramTable
from tui.emulator.runs.job_run import Dependencies
from tui.emulator.service_table import open_services
from tui.emulator.shells.service import ShellServer
from tui.emulator.storage.server import BucketServer
from tui.emulator.vertex.quota import check_quotas

STOP_SECONDS = 1.0
"""Time for calls in progress when the server stops, in seconds."""
_OPTIONS = (
    # The default would let a second server share the address silently.
    ("grpc.so_reuseport", 0),
    ("grpc.max_send_message_length", -1),
)


class Emulator(process.Server[StateDir]):
    """One running emulator: an async context manager, used by `main` and by tests.

    `rest` is HOST:PORT of the REST endpoint (port 0 selects a free port), `None` to serve none. With `auth`,
    REST clients need the token of the state directory.
    """

    def __init__(
        self,
        state: StateDir,
        config: EmulatorConfig | None = None,
        *,
        rest: str | None = None,
        auth: bool = True,
    ) -> None:
        super().__init__(state)
        self.config = config or EmulatorConfig.model_validate({})
        self.rest_url: str | None = None
        self.api_faults, self.disk = ApiFaults(), DiskFault()
        self.connections = HalfOpen(state)
        self.database = Database(state.database, self.disk.check_database)
        self.buckets = BucketServer(state, project_number("vxtui"))
        self.buckets.wrap = self._with_faults
        self._rest = rest
        self._auth = auth
        self.methods: list[Method] = []
        """The served RPCs, empty before the start."""
        self._opening_rest = asyncio.Lock()

    @property
    def target(self) -> str:
        """The gRPC target for a client's channel."""
        return self.state.target

    @property
    def listens_on(self) -> str:
        """The addresses, for the log."""
        return f"{self.state.target}, REST {self.rest_url or 'off'}"

    def reachable(self) -> bool:
        """Return whether clients can reach this server. Restores a lost name of its socket.

        False if its state directory is gone or was replaced by another.
        """
        if not self._lock.held:
            return False
        return self.state.socket.exists() or link_socket(self.state)

    def info(self) -> dict[str, Any]:
        """Return the contents of `emulator.json` and of the admin's status."""
        return {
            "pid": os.getpid(),
            "socket": str(self.state.socket),
            "rest": self.rest_url,
            "buckets": self.buckets.url,
            "state_dir": str(self.state.root),
            "started_at": self._started_at,
            "version": __version__,
        }

    async def _start(self) -> None:
        hold(self._lock, self._stack, self.state.socket, self.state.admin_socket, self.state.info)
        self.buckets.open()
        self._stack.push_async_callback(self.buckets.close)
        self.methods = await self._open_services()
        await self._serve_grpc(self.methods)
        if self._rest is not None:
            await self._serve_rest(*parse_address(self._rest))
        self._started_at = datetime.now(UTC).isoformat(timespec="seconds")
        write_info(self.state, self.info())

    async def _open_services(self) -> list[Method]:
        """Load the state, resume the jobs, and return the RPCs to serve."""
        self._stack.push_async_callback(self.database.close)
        await self.database.open()
        tables = await open_tables(self.database)
        parts = await open_parts(self.state, self.config, self.database, tables, self._stack)
        served = await open_services(parts)
        targets = Targets(FAULTS, parts, self.api_faults, self.disk, self.connections, self.buckets)
        self._stack.callback(targets.close)
        images = ProgramTable.of(self.config.images)
        admin = Admin(targets, self.info, self.stopping.set, images, self.open_rest)
        # API faults must not block the request that clears them.
        named = translated(served)
        return [*self.api_faults.apply(named), *self._open_shells(parts.running), *admin.methods()]

    def _open_shells(self, parts: Dependencies) -> list[Method]:
        """Serve programs in replicas, which end with the server."""
        shells = ShellServer(parts.table, parts.runner, self.state)
        self._stack.push_async_callback(shells.close)
        return shells.methods()

    def _with_faults(self, app: Any) -> Any:
        """Wrap the bucket server's application so that API faults apply to it. Imported on its first
        connection."""
        from tui.emulator.storage.fault_injection import FaultyHttp  # noqa: PLC0415

        return FaultyHttp(app, self.api_faults, self.disk)

    async def _serve_grpc(self, methods: list[Method]) -> None:
        server = grpc.aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers(grpc_handlers(methods))
        if not server.add_insecure_port(self.state.target):
            raise OSError(f"can't listen on {self.state.socket}")
        self._stack.push_async_callback(server.stop, STOP_SECONDS)
        await server.start()
        self.state.socket.chmod(0o600)
        link_admin(self.state)

    async def open_rest(self, address: str, auth: bool) -> dict[str, Any]:
        """Serve REST from now on, with `rest` and `auth` as at the start. Return `info`.

        Raises:
            StateDirError: `address` is not HOST:PORT on loopback, or REST is already served on another port
                or with another `auth`.
            OSError: the address is in use.
        """
        host, port = parse_address(address)
        async with self._opening_rest:
            if self.rest_url is None:
                self._auth = auth
                await self._serve_rest(host, port)
                write_info(self.state, self.info())
            elif port not in {0, int(self.rest_url.rpartition(":")[2])} or auth != self._auth:
                token = "with the token" if self._auth else "without a token"
                raise StateDirError(
                    f"REST is already served on {self.rest_url}, {token}; use it, or stop the emulator with "
                    "`vxtui emulator stop` and start it with other options: its jobs keep running"
                )
        return self.info()

    async def _serve_rest(self, host: str, port: int) -> None:
        # This imports an HTTP server, which most emulators never need.
        from tui.emulator.rpc.rest_server import serve_rest  # noqa: PLC0415

        server = await serve_rest(self.methods, self.state, host, port, self._auth)
        self._stack.push_async_callback(server.close)
        self.rest_url = server.url


def parse_address(text: str) -> tuple[str, int]:
    """Parse `HOST:PORT`. Only loopback is accepted, because a client can run programs here.

    Raises StateDirError for any other text, with the reason.
    """
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdigit() or int(port) > 65535:
        raise StateDirError(
            f"--rest {text} must be HOST:PORT, e.g. 127.0.0.1:8085 (port 0 selects a free port)"
        )
    if not is_loopback(host):
        raise StateDirError(
            f"--rest {text}: only a loopback address is served (127.0.0.1, ::1, localhost), because a client "
            "of the emulator can run any program as you; reach it from elsewhere through `ssh -L`"
        )
    return host, int(port)


async def serve(state: StateDir, rest: str | None, auth: bool, simulate: bool = False) -> None:
    """Run until `stopping` is set. `simulate` overrides the setting `simulate_accelerators`."""
    config = load_config(state.config)
    if simulate:
        config = config.model_copy(update={"simulate_accelerators": True})
    check_quotas(config)
    await process.serve_until_stopped(Emulator(state, config, rest=rest, auth=auth))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server. The exit code is 0 after a clean stop, 1 with a message on stderr when it can't
    start."""
    parser = argparse.ArgumentParser(prog="python -m tui.emulator", description=__doc__)
    parser.add_argument("--state-dir", type=Path, required=True, help="directory of this emulator's state")
    parser.add_argument("--rest", metavar="HOST:PORT", help="serve REST too, on a loopback address")
    parser.add_argument("--no-auth", action="store_true", help="do not require the token from REST clients")
    parser.add_argument(
        "--simulate-accelerators", action="store_true", help="simulate metrics of missing accelerators"
    )
    options = parser.parse_args(arguments)
    # gRPC's core writes directly to stderr and ignores the logging configuration.
    os.environ["GRPC_VERBOSITY"] = "NONE"
    state = StateDir(options.state_dir.absolute())
    if options.rest:
        try:
            parse_address(options.rest)
        except StateDirError as error:
            return process.refuse(state, str(error))
    return process.run(
        state,
        lambda: serve(state, options.rest, not options.no_auth, options.simulate_accelerators),
        DatabaseError,
        sqlite3.Error,
    )
