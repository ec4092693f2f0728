"""Operations on the emulator of this machine: start, faults and stop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from tui.actions.operations.runner import OperationError, Outcome
from tui.actions.operations.servers import ManagedServer, ServerOperations
from tui.domain.core.job import Job
from tui.domain.core.text import plain
from tui.emulator.client import FAULTS, StateDirError, default_state_dir, repair_databases, start_server

_NO_FAULT = {"do", "bucket", "lasts", "times", "late_seconds"}
"""Keys of a fault request that only limit a fault."""


EMULATOR = ManagedServer("emulator", "the emulator", "jobs", default_state_dir, "local")
ask = EMULATOR.ask


class EmulatorOperations(ServerOperations):
    """Operations on the emulator of the user's state directory."""

    SERVER = EMULATOR

    async def start(
        self, *, rest: str | None = None, no_auth: bool = False, simulate_accelerators: bool = False
    ) -> Outcome[dict[str, Any]]:
        """Start the emulator, or add REST to a running one; the value is the status of the server."""
        start = partial(start_server, rest=rest, no_auth=no_auth, simulate_accelerators=simulate_accelerators)
        return await self._start(start, lambda info: f"The emulator runs, pid {info['pid']}.")

    async def repair(self) -> Outcome[list[dict[str, Any]]]:
        """Repair the databases of a stopped emulator; the value has a report for each database."""
        state = default_state_dir()

        async def work() -> list[dict[str, Any]]:
            try:
                return await asyncio.to_thread(repair_databases, state)
            except (StateDirError, OSError) as error:
                raise OperationError(str(error), code="FAILED_PRECONDITION", exit_code=1) from error

        return await self._runner.run(
            "emulator.repair", str(state.root), work, lambda _: "Repaired the emulator's databases."
        )

    async def preempt(self, job: Job) -> Outcome[dict[str, Any]]:
        """Preempt all machines of a job."""
        return await self.fault_of_job(job, {"do": "preempt"})

    async def fault_of_job(self, job: Job, request: Mapping[str, Any]) -> Outcome[dict[str, Any]]:
        """Set a fault of one job; the value is the emulator's response."""
        values = [_text(value) for key, value in request.items() if key != "do"]
        words = " ".join([request["do"], job.name, *values])
        return await self._runner.run(
            "emulator.fault",
            words,
            lambda: ask({**request, "job": job.name}),
            lambda _: f"{FAULTS[request['do']].doing} {plain(job.display_name)}",
            region=job.region,
            context=job.context,
        )

    async def fault(self, request: Mapping[str, Any]) -> Outcome[dict[str, Any]]:
        """Set or clear the faults of a service (`tui.emulator.admin`); the value is the active faults."""
        return await self._fault(request, _words(request))


def _words(request: Mapping[str, Any]) -> str:
    """Return the faults of a request as text, e.g. `tail cut_every=20 shuffle`, or `tail clear`."""
    options = {key: value for key, value in request.items() if value and key != "do"}
    if request["do"] == "clear":
        return f"clear {_text(request['numbers'])}".strip()
    if not options.keys() - _NO_FAULT:
        return f"{request['do']} clear"
    words = [key if value is True else f"{key}={_text(value)}" for key, value in options.items()]
    return " ".join([request["do"], *words])


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
