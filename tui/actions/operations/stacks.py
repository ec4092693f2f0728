"""The stacks of a job's Python processes, read by a program in each replica."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tui.actions.operations.shells import ShellOperations
from tui.backends.shells import ShellEnd, ShellRequest, ShellSession
from tui.domain.core.job import Job
from tui.domain.core.text import plain
from tui.domain.document.decoding import decode_json

PROGRAM = Path(__file__).with_name("stacks_program.py")
AT_ONCE = 8
"""Number of replicas that are read at the same time."""
SECONDS = 60.0
MOST_BYTES = 4_000_000
_START = 'for p in python3 python; do command -v $p >/dev/null 2>&1 && exec $p -c "$0"; done; exit 127'
"""Shell command that runs the program with the image's Python."""
IN_A_TERMINAL = "In its terminal, `pip install py-spy` and `py-spy dump --pid PID` show the stacks."
"""The next step where a shell opens only in the browser."""


@dataclass(frozen=True, slots=True)
class ReplicaStacks:
    """The Python processes of one replica, each with its stacks, or why they can't be read."""

    replica: str
    processes: tuple[dict[str, str], ...] = ()
    problem: str = ""

    def json(self) -> dict[str, Any]:
        """Return the replica in the documented JSON format."""
        return {**asdict(self), "problem": self.problem or None}

    def lines(self) -> list[str]:
        """Return the replica for people."""
        lines = [] if self.processes else [f"{self.replica}  {self.problem or 'no Python process runs'}"]
        for process in self.processes:
            waits = f" in {process['waits_in']}" if process["waits_in"] and not process["stacks"] else ""
            by = f", by {process['by']}" if process["by"] else ""
            head = f"{self.replica}  process {process['pid']}, {process['state']}{waits}{by}"
            lines.append(f"{head}: {process['command']}")
            lines += [f"  {line}" for line in (process["stacks"] or process["problem"]).splitlines()]
        return [plain(line) for line in lines]


async def read_stacks(operations: ShellOperations, job: Job, replicas: Sequence[str]) -> list[ReplicaStacks]:
    """Return the stacks of these replicas. A replica that can't be read has a problem instead."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def read(replica: str) -> ReplicaStacks:
        async with slots:
            try:
                async with asyncio.timeout(SECONDS):
                    return await _read(operations, job, replica)
            except TimeoutError:
                return ReplicaStacks(replica, problem=f"did not answer within {SECONDS:.0f} s")

    return list(await asyncio.gather(*map(read, replicas)))


async def _read(operations: ShellOperations, job: Job, replica: str) -> ReplicaStacks:
    written = {1: bytearray(), 2: bytearray()}

    async def collect(session: ShellSession) -> ShellEnd:
        await session.end_input()
        while (chunk := await session.read()) is not None:
            written[chunk[0]] += chunk[1][: MOST_BYTES - len(written[chunk[0]])]
        return session.ended or ShellEnd(None, "The shell was closed.")

    command = ("sh", "-c", _START, await asyncio.to_thread(PROGRAM.read_text, "utf-8"))
    outcome = await operations.open(job, replica, ShellRequest(command), collect)
    if outcome.value is None:
        return ReplicaStacks(replica, problem=f"{outcome.text} {outcome.fix}".strip())
    try:
        processes = tuple(
            {str(k): str(v) for k, v in process.items()} for process in decode_json(bytes(written[1]))
        )
        return ReplicaStacks(replica, processes)
    except (ValueError, TypeError, AttributeError):
        if outcome.value.exit_code == 127:
            return ReplicaStacks(replica, problem="has no Python, so only `vxtui shell` can tell more")
        error = " ".join(written[2].decode(errors="replace").split())[-200:]
        return ReplicaStacks(replica, problem=error or outcome.value.reason or "wrote no stacks")
