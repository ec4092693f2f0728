"""An HTTP server in the emulator's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn

KEEP_ALIVE = 75
"""Seconds for which an idle connection stays open.

A client that sends a request when the server closes the connection gets no response, and may not repeat a
request that changes something. The 5 seconds of uvicorn are too short, because a program on a busy machine
may pause for as long.
"""


class HttpServer:
    """A started server, made by `serve_http`."""

    def __init__(self, server: uvicorn.Server, task: asyncio.Task[None]) -> None:
        self._server, self._task = server, task

    async def close(self) -> None:
        """Stop listening and end the requests in progress."""
        self._server.should_exit = True
        await self._task


def server_config(app: Any, **options: Any) -> uvicorn.Config:
    """Return uvicorn's configuration for an application of the emulator, with additional `options`."""
    quiet: dict[str, Any] = {"log_config": None, "access_log": False, "server_header": False}
    ends: dict[str, Any] = {"timeout_graceful_shutdown": 1, "timeout_keep_alive": KEEP_ALIVE}
    return uvicorn.Config(app, lifespan="off", http="h11", **quiet, **ends, **options)


async def serve_http(app: Any, listener: socket.socket, name: str, **options: Any) -> HttpServer:
    """Serve the ASGI application on a listening socket. `options` are additional options of uvicorn.

    Raises OSError when the server ended before it served.
    """
    server = _Server(server_config(app, **options))
    task = asyncio.create_task(server.serve(sockets=[listener]), name=name)
    ready = asyncio.create_task(server.ready.wait())
    try:
        await asyncio.wait((task, ready), return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        task.cancel()
        raise
    finally:
        ready.cancel()
    if task.done():
        task.result()
        raise OSError("the HTTP server ended at once; the log shows the reason")
    return HttpServer(server, task)


class _Server(uvicorn.Server):
    """Sets `ready` when it listens, and leaves signals to the process's handlers."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
