"""The bucket server: Google Cloud Storage's API over HTTP on loopback, over the files of `buckets/`.

The emulator binds the port when it starts, because jobs have the address in their environment. The emulator
loads the server at the first connection, in a separate thread, so that a large upload delays no other call.
Port and secret are the same at the next start, because running jobs have the address.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tui.emulator.database import check_file
from tui.emulator.paths import StateDir, StateDirError, url_of_buckets
from tui.emulator.rpc.loopback import listen

if TYPE_CHECKING:
    from tui.emulator.storage.app import BucketApp
    from tui.emulator.storage.faults import ActiveBucketFaults

log = logging.getLogger(__name__)

STOP_SECONDS = 5.0


class BucketServer:
    """A bound port, and its server after the first connection. Use only in the event loop."""

    def __init__(self, state: StateDir, project_number: str) -> None:
        self._state = state
        self._project_number = project_number
        self._listener: socket.socket | None = None
        self._server_thread: _ServerThread | None = None
        self._faults: ActiveBucketFaults | None = None
        self.wrap: Callable[[Any], Any] = lambda app: app
        """A wrapper of the ASGI application, for faults. Set it before the first connection."""
        self.url = ""
        """Base address for clients, including the secret that gives access to every bucket."""

    def open(self) -> None:
        """Bind the port and store the address.

        Raises:
            DatabaseError: the buckets' database is damaged.
            StateDirError: the address can't be stored.
            OSError: no port is free.
        """
        check_file(self._state.bucket_database)
        path = self._state.bucket_address
        stored_port, key = self._state.bucket_port_and_key() or (0, secrets.token_urlsafe(24))
        self._listener = listen(stored_port)
        port = self._listener.getsockname()[1]
        if stored_port and port != stored_port:
            log.warning("port %d of the buckets is taken; running jobs can't reach the buckets", stored_port)
        self.url = url_of_buckets(port, key)
        try:
            path.touch(mode=0o600)
            path.chmod(0o600)
            path.write_text(json.dumps({"port": port, "key": key}) + "\n")
        except OSError as error:
            self._listener.close()
            raise StateDirError(f"can't store the buckets' address in {path}: {error.strerror}") from error
        asyncio.get_running_loop().add_reader(self._listener, self._start_serving)

    async def close(self) -> None:
        """Stop listening; requests in progress are aborted."""
        if self._listener is None:
            return
        asyncio.get_running_loop().remove_reader(self._listener)
        if self._server_thread is not None:
            await asyncio.to_thread(self._server_thread.stop)
        self._listener.close()
        self._listener = None

    @property
    def faults(self) -> ActiveBucketFaults:
        """The faults in force, created on first access."""
        if self._faults is None:
            from tui.emulator.storage.faults import ActiveBucketFaults  # noqa: PLC0415

            self._faults = ActiveBucketFaults()
        return self._faults

    def _start_serving(self) -> None:
        """Start the thread that serves the port, at the first connection."""
        assert self._listener is not None
        asyncio.get_running_loop().remove_reader(self._listener)
        self._server_thread = _ServerThread(self._listener, self._app)

    def _app(self) -> tuple[Any, BucketApp]:
        from tui.emulator.storage.app import BucketApp  # noqa: PLC0415

        key = self.url.rpartition("/")[2]
        app = BucketApp(self._state, self.faults, self.url, key, self._project_number)
        return self.wrap(app), app


class _ServerThread:
    """The thread that runs the server."""

    def __init__(self, listener: socket.socket, make: Callable[[], tuple[Any, BucketApp]]) -> None:
        self._listener, self._make = listener, make
        self._server: Any = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="buckets", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the server and wait until it has exited (blocking)."""
        self._stopping.set()
        if self._server is not None:
            self._server.should_exit = True
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception:
            log.exception("the bucket server has ended")

    async def _serve(self) -> None:
        import uvicorn  # noqa: PLC0415

        from tui.emulator.rpc.http_server import server_config  # noqa: PLC0415

        # Create the application here: its database belongs to this thread.
        served, app = self._make()
        try:
            self._server = uvicorn.Server(server_config(served, ws="none"))
            # The emulator handles the signals.
            self._server.capture_signals = contextlib.nullcontext
            if not self._stopping.is_set():
                # Pass a copy of the socket, since the server closes its own.
                await self._server.serve(sockets=[self._listener.dup()])
        finally:
            app.close()
