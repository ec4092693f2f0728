"""What changes the emulator of this machine: faults and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from tui.actions.operations.runner import OperationError, OperationRunner, Outcome
from tui.emulator import launcher
from tui.emulator.admin_client import AdminError, admin_call
from tui.emulator.paths import default_state_dir

_EXIT_CODES = {"NOT_FOUND": 3, "UNAVAILABLE": 5, "DEADLINE_EXCEEDED": 5}


class EmulatorOperations:
    """Acts on the emulator of the user's state directory."""

    def __init__(self, runner: OperationRunner) -> None:
        self._runner = runner

    async def stop(self) -> Outcome[bool]:
        """End the emulator; its jobs keep running. The value is False where none was running."""
        state = default_state_dir()

        async def stop() -> bool:
            try:
                return await asyncio.to_thread(launcher.stop, state)
            except launcher.LauncherError as error:
                raise OperationError(str(error), code="UNAVAILABLE", exit_code=5) from error

        def done(running: bool) -> str:
            return (
                "Stopped the emulator; its jobs keep running." if running else "The emulator was not running."
            )

        return await self._runner.run("emulator.stop", str(state.root), stop, done)

    async def fault(self, request: Mapping[str, Any]) -> Outcome[dict[str, Any]]:
        """Send a fault as `tui.emulator.admin` describes it; the value is the emulator's answer."""

        async def send() -> dict[str, Any]:
            return await ask(request)

        words = [str(request[key]) for key in ("do", "job", "replica", "bucket") if request.get(key)]
        return await self._runner.run(
            "emulator.fault", " ".join(words), send, lambda _: f"The emulator does: {' '.join(words)}"
        )


async def ask(request: Mapping[str, Any]) -> dict[str, Any]:
    """What the running emulator answers.

    Raises:
        OperationError: with the emulator's own sentence.
    """
    try:
        return await asyncio.to_thread(admin_call, default_state_dir(), request)
    except AdminError as error:
        exit_code = _EXIT_CODES.get(error.code, 2)
        raise OperationError(str(error), code=error.code, exit_code=exit_code) from error
