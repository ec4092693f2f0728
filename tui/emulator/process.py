"""Process of a server, shared by both emulators: umask, log file, signals, ready line, refused start."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import logging.handlers
import os
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Self, TypeVar

from tui.emulator.config import ConfigError
from tui.emulator.lock import Lock
from tui.emulator.paths import StateDir, StateDirError

log = logging.getLogger(__name__)

S = TypeVar("S", bound=StateDir)
CHECK_SECONDS = 1.0
"""Seconds between checks that clients can still reach the server."""


class Server(ABC, Generic[S]):
    """A server that listens while its context is open: an async context manager."""

    def __init__(self, state: S) -> None:
        self.state = state
        self.stopping = asyncio.Event()
        """Set when the server must end. The server's owner then closes it."""
        self._lock = Lock(state)
        self._started_at = ""
        self._stack = contextlib.AsyncExitStack()
        """The exit stack that closes the parts opened by `_start`."""

    async def __aenter__(self) -> Self:
        """Start everything, or nothing.

        Raises:
            StateDirError: the state directory can't be used (EmulatorBusy: another server uses it).
            DatabaseError: the stored state can't be read.
            OSError: the disk is full, or an address can't be bound.
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
    @abstractmethod
    def listens_on(self) -> str:
        """The addresses, for the log."""

    @abstractmethod
    def reachable(self) -> bool:
        """Return whether clients can reach the server; the result is False if its state directory is gone or
        replaced."""

    @abstractmethod
    async def _start(self) -> None:
        """Open everything on the stack."""


def run(state: StateDir, serving: Callable[[], Coroutine[Any, Any, None]], *refusals: type[Exception]) -> int:
    """Run the process of a server. The exit code is 0 after a clean stop, 1 with a message on stderr.

    `refusals` are exceptions in addition to those of the state directory and the settings, whose text gives
    the reason for a refused start.
    """

    async def work() -> None:
        await serving()
        # A thread that still reads a large request must not delay the end; nobody waits for its answer.
        logging.shutdown()
        os._exit(0)

    known: tuple[type[Exception], ...] = (StateDirError, ConfigError, *refusals)
    os.umask(0o077)
    try:
        state.prepare()
        _log_to(state)
        asyncio.run(work())
    except known as error:
        return refuse(state, str(error))
    except OSError as error:
        return refuse(state, f"can't start in {state.root}: {error.strerror or error}")
    return 0


def refuse(state: StateDir, why: str) -> int:
    """Report why the server can't start; return the exit code."""
    # Without the log file the record would go to stderr too.
    if logging.getLogger().handlers:
        log.error("%s", why)
    print(f"{state.COMMAND}: {why}", file=sys.stderr)  # noqa: T201
    return 1


async def serve_until_stopped(server: Server[Any]) -> None:
    """Open the server and close it after SIGTERM, SIGINT or `stopping`."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stopping.set)
    async with server:
        log.info("ready on %s", server.listens_on)
        while not server.stopping.is_set() and server.reachable():
            # A server that no client can reach must not prevent another server from starting.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await server.stopping.wait()
        log.info("stopping")


def _log_to(state: StateDir) -> None:
    # On a full disk, logging must not write tracebacks to the terminal.
    logging.raiseExceptions = False
    handler = logging.handlers.RotatingFileHandler(state.log, maxBytes=5_000_000, backupCount=1, delay=True)
    formatter = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
