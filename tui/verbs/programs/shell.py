"""`vxtui shell`: a shell or a command in a running replica."""

from __future__ import annotations

import os
import sys
from functools import partial

import click

from tui.actions.operations.shells import ENABLE, IN_THE_BROWSER, ShellOperations, web_shell
from tui.backends.interface import Backend, NotOffered
from tui.backends.shells import ShellEnd, ShellRequest, ShellSession
from tui.domain.core.job import Job, known_replicas, shell_problem
from tui.terminal_attach import LOST_PROGRAM, Streams, attach, request_for
from tui.verbs.output import note, out, print_json
from tui.verbs.run import Run, VerbFailure, find_job, value_of, verb

ENDED_BEFORE = 1
"""Exit code if the replica or the emulator ended before the program."""


@click.command()
@click.argument("job")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--replica", metavar="ID", help="Replica, e.g. workerpool1-0; by default the primary.")
@verb("job.shell")
async def shell(run: Run, job: str, command: tuple[str, ...], replica: str | None) -> int:
    """Open a shell in a running replica of JOB, or run COMMAND there; write `--` before its options.

    It has the replica's environment and working folder. The exit code is the program's. Vertex AI opens
    shells only in the browser: there the verb prints the address.
    """
    async with run.backend() as backend:
        target = await find_job(backend, job)
        where = replica_of(target, replica)
        if not backend.offers_for(target.name, "shells"):
            return await _in_the_browser(run, backend, target, where, command)
        operations = run.shell_operations(backend)
        if run.json and not command:
            raise VerbFailure("--json needs a COMMAND: a shell is interactive.", code="USAGE")
        if run.json:
            end = await _captured(operations, target, where, command)
        else:
            end = await _connected(operations, target, where, command)
    if end.exit_code is None:
        note(end.reason)
        return ENDED_BEFORE
    return end.exit_code


def replica_of(job: Job, requested: str | None) -> str:
    """Return the replica to use. Raises VerbFailure if none can have a shell."""
    problem = shell_problem(job)
    if problem:
        look = "tasks" if job.state.active and job.tasks else "describe"
        raise VerbFailure(problem, fix=f"vxtui {look} {job.id}", code="FAILED_PRECONDITION", exit_code=1)
    known = [replica.id for replica in known_replicas(job)]
    if requested is not None and requested not in known:
        message = f"{job.display_name} has no replica {requested}, only {', '.join(known)}."
        raise VerbFailure(message, code="NOT_FOUND", exit_code=3)
    return requested or known[0]


async def _connected(
    operations: ShellOperations, job: Job, replica: str, command: tuple[str, ...]
) -> ShellEnd:
    streams = Streams()
    if streams.terminal and not command:
        note(f"A shell in {replica} of {job.display_name}. exit or ctrl+d leaves it.")
    request = request_for(streams, command, os.environ)
    sys.stdout.flush()
    return value_of(await operations.open(job, replica, request, partial(attach, streams=streams)))


async def _captured(
    operations: ShellOperations, job: Job, replica: str, command: tuple[str, ...]
) -> ShellEnd:
    written: dict[int, bytearray] = {1: bytearray(), 2: bytearray()}

    async def collect(session: ShellSession) -> ShellEnd:
        await session.end_input()
        while (chunk := await session.read()) is not None:
            written[chunk[0]] += chunk[1]
        return session.ended or LOST_PROGRAM

    end = value_of(await operations.open(job, replica, ShellRequest(command), collect))
    print_json(
        {
            "job": job.name,
            "replica": replica,
            "exit_code": end.exit_code,
            "ended": end.reason or None,
            "stdout": written[1].decode(errors="replace"),
            "stderr": written[2].decode(errors="replace"),
        }
    )
    return end


async def _in_the_browser(
    run: Run, backend: Backend, job: Job, replica: str, command: tuple[str, ...]
) -> int:
    """Print the address of the replica's shell. Raises VerbFailure without an address, or for a command."""
    # A listing omits the addresses.
    uri = web_shell(await backend.job_service(job.runner).get(job.runner), replica)
    if command or not uri:
        message = f"{IN_THE_BROWSER}{f': {uri}' if uri else f', and {replica} has none'}."
        fix = "" if uri else ENABLE
        raise VerbFailure(message, fix=fix, code=NotOffered.code, exit_code=NotOffered.exit_code)
    if run.json:
        print_json({"job": job.name, "replica": replica, "web_access_uri": uri})
    else:
        note(f"{IN_THE_BROWSER}:")
        out(uri)
    return 0
