"""Programs in the replicas of running jobs, over gRPC: `vxtui.emulator.v1.Shells/Open`.

The service is only on the emulator's socket, which is in a directory of its user, and never on REST. Vertex
AI has no such service: a shell opens in a browser, through a job's `web_access_uris`.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from google.protobuf import wrappers_pb2

from tui.domain.core import exec_frames as frames
from tui.domain.core.exec_frames import Opening, frame
from tui.emulator.interfaces import JobRecord, Runner
from tui.emulator.paths import StateDir
from tui.emulator.rpc.methods import Method, WireError, failed_precondition, invalid, not_found
from tui.emulator.runner import process_tree
from tui.emulator.runner.plan import AttemptPlan, ReplicaPlan
from tui.emulator.shells.program import ReplicaPlace, ReplicaProgram
from tui.emulator.vertex.job_table import CustomJob, CustomJobTable
from tui.emulator.vertex.operations import CUSTOM_JOB_KIND
from tui.emulator.vertex.resource_requests import find

SERVICE, NAME = frames.METHOD.strip("/").split("/")
FALLBACK = "/bin/sh"
NO_USER_FILES = {"zsh": ("-f",)}
"""Arguments of a shell that would otherwise start its setup dialog in a home without its files."""
BytesPb = wrappers_pb2.BytesValue


class ShellServer:
    """RPC handler of shells."""

    def __init__(self, table: CustomJobTable, runner: Runner, state: StateDir) -> None:
        self._table, self._runner, self._state = table, runner, state
        self._running: dict[asyncio.Task[None], ReplicaProgram] = {}

    def methods(self) -> list[Method]:
        return [Method(SERVICE, NAME, BytesPb, BytesPb, bidi=self.open)]

    async def close(self) -> None:
        """End every program."""
        for program in self._running.values():
            program.hang_up()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def open(self, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Run a program until the program, its replica or the client ends."""
        first = await anext(aiter(requests), None)
        try:
            opening = Opening.decode(first.value if first is not None else b"")
        except ValueError as error:
            raise invalid(("", str(error))) from error
        program = await self._start(opening)
        running = asyncio.create_task(program.run(), name=f"shell in {opening.replica}")
        self._running[running] = program
        running.add_done_callback(self._running.pop)
        feeding = asyncio.create_task(_feed(program, requests))
        try:
            yield BytesPb()
            async for data in program.output(running):
                yield BytesPb(value=data)
            await running
            yield BytesPb(value=frame(frames.STATUS, program.ended.encode()))
        finally:
            program.hang_up()
            feeding.cancel()

    async def _start(self, opening: Opening) -> ReplicaProgram:
        job = find(self._table, JobRecord.COLLECTION, CUSTOM_JOB_KIND, opening.job)
        place = await asyncio.to_thread(self._place, job, opening.replica)
        shell = _shell(opening.shell)
        argv = opening.command or (shell, *NO_USER_FILES.get(Path(shell).name, ()))
        more = {"TERM": opening.term, "COLORTERM": opening.colours} if opening.terminal else {}
        more = {name: value for name, value in more.items() if value} | {"SHELL": shell}
        try:
            return await ReplicaProgram.start(place, argv, more, opening.terminal)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise failed_precondition(
                opening.replica, f"Can't run a program in {opening.replica}: {why}."
            ) from error

    def _place(self, job: CustomJob, replica: str) -> ReplicaPlace:
        """Return where the replica of this job runs. Raises WireError if it doesn't run."""
        attempt = self._state.attempt(job.record.id, job.control.attempt)
        if job.terminal:
            raise _not_running(job, replica, "the job has ended")
        try:
            plan = AttemptPlan.load(attempt.plan)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _not_running(job, replica, "the job has not started yet") from error
        planned = _planned(plan, job, replica)
        try:
            status = {
                replica_status.id: replica_status for replica_status in self._runner.status(attempt).replicas
            }.get(replica)
        except sqlite3.Error as error:
            raise _not_running(job, replica, f"its record can't be read: {error}") from error
        if status is None or status.state == "starting":
            raise _not_running(job, replica, "it has not started yet")
        process = process_tree.read(status.pid) if status.pid is not None else None
        if process is None or process.ended:
            code = f" with exit code {status.exit_code}" if status.exit_code is not None else ""
            raise _not_running(job, replica, f"it has ended{code}")
        try:
            return ReplicaPlace.of(replica, process, planned.workdir)
        except OSError as error:
            raise _not_running(job, replica, "it has just ended") from error


def _planned(plan: AttemptPlan, job: CustomJob, replica: str) -> ReplicaPlan:
    """Return the plan of this replica. Raises WireError if the job has no such replica."""
    for planned in plan.replicas:
        if planned.id == replica:
            return planned
    has = ", ".join(planned.id for planned in plan.replicas)
    error = not_found("replica", replica)
    raise WireError(
        error.code, f"The job {job.record.name} has no replica {replica!r}. The job's replicas: {has}."
    )


def _not_running(job: CustomJob, replica: str, why: str) -> WireError:
    return failed_precondition(job.record.name, f"{replica} is not running: {why}.")


def _shell(path: str) -> str:
    """Return the user's shell if this machine has it."""
    return path if Path(path).is_absolute() and os.access(path, os.X_OK) else FALLBACK


async def _feed(program: ReplicaProgram, requests: AsyncIterator[Any]) -> None:
    """Forward the client's frames. Their end means that the client has disconnected."""
    try:
        async for request in requests:
            if request.value:
                await program.take(request.value)
    finally:
        program.hang_up()
