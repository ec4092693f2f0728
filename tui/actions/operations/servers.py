"""Operations on a server of this machine, the emulator or Kubernetes: start, stop and requests."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tui.actions.operations.runner import OperationError, OperationRunner, Outcome
from tui.emulator.client import AdminError, LauncherError, StateDir, admin_call, server_status, stop_server

_EXIT_CODES = {"NOT_FOUND": 3, "FAILED_PRECONDITION": 1, "UNAVAILABLE": 5, "DEADLINE_EXCEEDED": 5}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ManagedServer:
    """One server of the user's state directory."""

    noun: str
    """The server's name, as in "no NOUN runs"."""
    title: str
    """The server's name, as in "Stopped TITLE"."""
    stays: str
    """The objects that outlive the server."""
    state: Callable[[], StateDir]
    context_kind: str
    """The kind of the contexts that the server serves."""

    async def must_run(self) -> None:
        """Check that the server runs. Raises OperationError."""
        state = self.state()
        if await asyncio.to_thread(server_status, state) is None:
            raise OperationError(
                f"no {self.noun} runs on {state.root}",
                fix=f"{state.COMMAND} start",
                code="UNAVAILABLE",
                exit_code=5,
            )

    async def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request to the running server; return its response. Raises OperationError if no server runs,
        or with the server's own message if it refuses."""
        await self.must_run()
        state = self.state()
        try:
            return await asyncio.to_thread(admin_call, state, request)
        except AdminError as error:
            exit_code = _EXIT_CODES.get(error.code, 2)
            fix = f"`{state.COMMAND} logs` shows its log." if exit_code == 5 else ""
            raise OperationError(str(error), fix=fix, code=error.code, exit_code=exit_code) from error


class ServerOperations:
    """Stops a server, or starts it in this process. A subclass adds the start and its own operations."""

    SERVER: ManagedServer

    def __init__(self, runner: OperationRunner) -> None:
        self._runner = runner

    async def become(self, arguments: Sequence[str] = ()) -> Outcome[None]:
        """Replace this process with the server, started with these arguments. Returns only if that fails."""
        state = self.SERVER.state()

        async def become() -> None:
            command = [sys.executable, "-m", state.MODULE, "--state-dir", str(state.root), *arguments]
            os.execv(sys.executable, command)

        return await self._runner.run("emulator.start", str(state.root), become, str)

    async def stop(self) -> Outcome[bool]:
        """Stop the server; its jobs or pods keep running. The value is False if no server was running."""
        server, state = self.SERVER, self.SERVER.state()
        title = server.title[:1].upper() + server.title[1:]

        def done(running: bool) -> str:
            if running:
                return f"Stopped {server.title}; its {server.stays} keep running."
            return f"{title} was not running."

        return await self._runner.run(
            "emulator.stop", str(state.root), lambda: _launched(lambda: stop_server(state)), done
        )

    async def _start(
        self, start: Callable[[StateDir], dict[str, Any]], done: Callable[[dict[str, Any]], str]
    ) -> Outcome[dict[str, Any]]:
        state = self.SERVER.state()
        return await self._runner.run(
            "emulator.start", str(state.root), lambda: _launched(lambda: start(state)), done
        )

    async def _fault(self, request: Mapping[str, Any], words: str) -> Outcome[dict[str, Any]]:
        return await self._runner.run(
            "emulator.fault", words, lambda: self.SERVER.ask(request), lambda _: f"Fault injection: {words}"
        )


async def _launched(work: Callable[[], T]) -> T:
    """Start or stop a server in a thread. Raises OperationError."""
    try:
        return await asyncio.to_thread(work)
    except LauncherError as error:
        raise OperationError(str(error), code="UNAVAILABLE", exit_code=5) from error
