"""What changes the emulator of this machine: its start, faults and its end."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from tui.actions.operations.runner import OperationError, OperationRunner, Outcome
from tui.domain.job import Job
from tui.domain.text import plain
from tui.emulator import launcher
from tui.emulator.admin_client import AdminError, admin_call
from tui.emulator.paths import StateDirError, default_state_dir

_EXIT_CODES = {"NOT_FOUND": 3, "FAILED_PRECONDITION": 1, "UNAVAILABLE": 5, "DEADLINE_EXCEEDED": 5}
_NO_FAULT = {"do", "bucket", "lasts", "times", "late_seconds"}
"""Keys of a fault's request that limit a fault, and set none."""


class EmulatorOperations:
    """Acts on the emulator of the user's state directory."""

    def __init__(self, runner: OperationRunner) -> None:
        self._runner = runner

    async def start(
        self, *, rest: str | None = None, no_auth: bool = False, simulate_accelerators: bool = False
    ) -> Outcome[dict[str, Any]]:
        """Start the emulator, or add REST to one that runs; the value is its `launcher.status`."""
        state = default_state_dir()

        async def start() -> dict[str, Any]:
            try:
                return await asyncio.to_thread(
                    launcher.start,
                    state,
                    rest=rest,
                    no_auth=no_auth,
                    simulate_accelerators=simulate_accelerators,
                )
            except launcher.LauncherError as error:
                raise OperationError(str(error), code="UNAVAILABLE", exit_code=5) from error

        return await self._runner.run(
            "emulator.start", str(state.root), start, lambda info: f"The emulator runs, pid {info['pid']}."
        )

    async def become(self, arguments: list[str]) -> Outcome[None]:
        """Make this process the emulator, with these arguments. Returns only after a failure."""
        state = default_state_dir()

        async def become() -> None:
            command = [sys.executable, "-m", "tui.emulator", "--state-dir", str(state.root), *arguments]
            os.execv(sys.executable, command)

        return await self._runner.run("emulator.start", str(state.root), become, str)

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

    async def repair(self) -> Outcome[list[dict[str, Any]]]:
        """Repair the databases of an emulator that does not run; a line for each of them."""
        state = default_state_dir()

        async def work() -> list[dict[str, Any]]:
            # Imported here: the other verbs need neither gRPC nor the messages.
            from tui.emulator.repair import repair  # noqa: PLC0415

            try:
                return [asdict(one) for one in await asyncio.to_thread(repair, state)]
            except (StateDirError, OSError) as error:
                raise OperationError(str(error), code="FAILED_PRECONDITION", exit_code=1) from error

        return await self._runner.run(
            "emulator.repair", str(state.root), work, lambda _: "Repaired the emulator's databases."
        )

    async def preempt(self, job: Job, replica: str = "") -> Outcome[dict[str, Any]]:
        """Preempt a job's machines, or that of one replica; the value is the emulator's answer."""
        request = {"do": "preempt", "job": job.name, **({"replica": replica} if replica else {})}
        return await self._runner.run(
            "emulator.fault",
            " ".join(filter(None, ("preempt", job.name, replica))),
            lambda: ask(request),
            lambda _: f"Preempting {plain(job.display_name)}",
            region=job.region,
            context=job.context,
        )

    async def fault(self, request: Mapping[str, Any]) -> Outcome[dict[str, Any]]:
        """Set or clear the faults of a service (`tui.emulator.admin`); the value is what is in force."""
        target = _words(request)
        return await self._runner.run(
            "emulator.fault", target, lambda: ask(request), lambda _: f"Fault injection: {target}"
        )


def _words(request: Mapping[str, Any]) -> str:
    """What a request sets, e.g. `tail cut_every=20 shuffle`, or `tail clear`."""
    given = {key: value for key, value in request.items() if value and key != "do"}
    if request["do"] == "clear":
        return f"clear {_text(request['numbers'])}".strip()
    if not given.keys() - _NO_FAULT:
        return f"{request['do']} clear"
    words = [key if value is True else f"{key}={_text(value)}" for key, value in given.items()]
    return " ".join([request["do"], *words])


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


async def must_run() -> None:
    """Raises OperationError where no emulator runs."""
    state = default_state_dir()
    if await asyncio.to_thread(launcher.status, state) is None:
        raise OperationError(
            f"no emulator runs on {state.root}", fix="vxtui emulator start", code="UNAVAILABLE", exit_code=5
        )


async def ask(request: Mapping[str, Any]) -> dict[str, Any]:
    """What the running emulator answers.

    Raises:
        OperationError: where none runs, or with the emulator's own sentence.
    """
    await must_run()
    try:
        return await asyncio.to_thread(admin_call, default_state_dir(), request)
    except AdminError as error:
        exit_code = _EXIT_CODES.get(error.code, 2)
        fix = "`vxtui emulator logs` has its log." if exit_code == 5 else ""
        raise OperationError(str(error), fix=fix, code=error.code, exit_code=exit_code) from error
