"""What changes the Kubernetes of this machine: its start, faults and its end."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from typing import Any

from tui.actions.operations.runner import OperationError, OperationRunner, Outcome
from tui.emulator.kubernetes import launcher
from tui.emulator.kubernetes.paths import KubernetesState, default_kubernetes_state

_EXIT_CODES = {"NOT_FOUND": 3, "UNAVAILABLE": 5, "DEADLINE_EXCEEDED": 5}


class KubernetesOperations:
    """Acts on the Kubernetes of the user's state directory."""

    def __init__(self, runner: OperationRunner) -> None:
        self._runner = runner

    async def start(self) -> Outcome[dict[str, Any]]:
        """Start it; the value is its `launcher.status`."""
        state = default_kubernetes_state()

        async def start() -> dict[str, Any]:
            try:
                return await asyncio.to_thread(launcher.start, state)
            except launcher.LauncherError as error:
                raise OperationError(str(error), code="UNAVAILABLE", exit_code=5) from error

        def done(info: dict[str, Any]) -> str:
            return f"Kubernetes runs on {info['server']}, pid {info['pid']}."

        return await self._runner.run("emulator.start", str(state.root), start, done)

    async def become(self) -> Outcome[None]:
        """Make this process the server. Returns only after a failure."""
        state = default_kubernetes_state()

        async def become() -> None:
            command = [sys.executable, "-m", state.MODULE, "--state-dir", str(state.root)]
            os.execv(sys.executable, command)

        return await self._runner.run("emulator.start", str(state.root), become, str)

    async def stop(self) -> Outcome[bool]:
        """End it; its pods keep running. The value is False where none was running."""
        state = default_kubernetes_state()

        async def stop() -> bool:
            try:
                return await asyncio.to_thread(launcher.stop, state)
            except launcher.LauncherError as error:
                raise OperationError(str(error), code="UNAVAILABLE", exit_code=5) from error

        def done(running: bool) -> str:
            return "Stopped Kubernetes; its pods keep running." if running else "Kubernetes was not running."

        return await self._runner.run("emulator.stop", str(state.root), stop, done)

    async def fault(self, request: Mapping[str, Any]) -> Outcome[dict[str, Any]]:
        """Set or clear faults (`tui.emulator.kubernetes.api.admin`); the value is the answer."""
        given = {key: value for key, value in request.items() if value and key != "do"}
        words = " ".join([f"kubernetes {request['do']}", *(f"{key}={value}" for key, value in given.items())])
        return await self._runner.run(
            "emulator.fault", words, lambda: ask(request), lambda _: f"Fault injection: {words}"
        )


async def ask(request: Mapping[str, Any]) -> dict[str, Any]:
    """What the running server answers.

    Raises:
        OperationError: where none runs, or with the server's own sentence.
    """
    state: KubernetesState = default_kubernetes_state()
    if await asyncio.to_thread(launcher.status, state) is None:
        raise OperationError(
            f"no Kubernetes runs on {state.root}", fix=f"{state.COMMAND} start", code="UNAVAILABLE",
            exit_code=5,
        )  # fmt: skip
    # It loads http.client, which other verbs do without.
    from tui.emulator.kubernetes.admin_client import AdminError, admin_call  # noqa: PLC0415

    try:
        return await asyncio.to_thread(admin_call, state, request)
    except AdminError as error:
        exit_code = _EXIT_CODES.get(error.code, 2)
        fix = f"`{state.COMMAND} logs` has its log." if exit_code == 5 else ""
        raise OperationError(str(error), fix=fix, code=error.code, exit_code=exit_code) from error
