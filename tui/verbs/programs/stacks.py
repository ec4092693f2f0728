"""`vxtui stacks`: where each replica waits."""

from __future__ import annotations

import click

from tui.actions.operations.shells import ENABLE, IN_THE_BROWSER, web_shell
from tui.actions.operations.stacks import IN_A_TERMINAL, read_stacks
from tui.backends.interface import NotOffered
from tui.domain.core.job import known_replicas
from tui.verbs.output import out, print_json
from tui.verbs.programs.shell import replica_of
from tui.verbs.run import Run, VerbFailure, find_job, verb


@click.command()
@click.argument("job")
@click.option("--replica", metavar="ID", help="Only this replica, e.g. workerpool1-0.")
@verb("job.shell")
async def stacks(run: Run, job: str, replica: str | None) -> int:
    """Show the stacks of the Python processes in each running replica of JOB.

    They are read by py-spy if the image has it, else by the trainer's own handler. Other processes are named
    with the kernel function in which they wait. Exit code 1 if no replica could be read.
    """
    async with run.backend() as backend:
        target = await find_job(backend, job)
        first = replica_of(target, replica)
        if not backend.offers_for(target.name, "shells"):
            uri = web_shell(await backend.job_service(target.runner).get(target.runner), first)
            message = f"{IN_THE_BROWSER}{f': {uri}' if uri else ''}."
            fix = IN_A_TERMINAL if uri else f"{ENABLE} {IN_A_TERMINAL}"
            raise VerbFailure(message, fix=fix, code=NotOffered.code, exit_code=NotOffered.exit_code)
        replicas = (
            [first] if replica else [other.id for other in known_replicas(target) if not other.state.terminal]
        )
        operations = run.shell_operations(backend)
        read = await read_stacks(operations, target, replicas)
    if run.json:
        print_json({"job": target.name, "replicas": [stacks.json() for stacks in read]})
    else:
        for line in (line for stacks in read for line in stacks.lines()):
            out(line)
    return 0 if any(not stacks.problem for stacks in read) else 1
