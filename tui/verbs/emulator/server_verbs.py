"""The verbs shared by all local servers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tui.actions.operations.servers import ManagedServer, ServerOperations
from tui.verbs.output import out, print_json
from tui.verbs.run import READS, Run, VerbFailure, value_of, verb


def add_server_verbs(
    group: click.Group,
    server: ManagedServer,
    operations: Callable[[Run], ServerOperations],
    show: Callable[[dict[str, Any]], None],
    *,
    counts: str,
    hint: str = "",
) -> None:
    """Add `stop`, `status` and `logs`. `show` prints the status, which has the number of `counts`.

    `hint` follows the message that no server was running.
    """

    @group.command(help=f"Stop {server.title}. Its {server.stays} keep running.")
    @verb("emulator.stop")
    async def stop(run: Run) -> None:
        if run.context_name and (run.context.kind, run.context.emulated) != (server.context_kind, True):
            problem = f"{server.title} does not serve the context {run.context.name}"
            raise VerbFailure(problem, fix="Omit --context.", code="USAGE")
        was_running = value_of(await operations(run).stop())
        not_running = f"{server.title} was not running{hint}"
        if run.json:
            print_json({"stopped": was_running})
        else:
            out(f"stopped; its {server.stays} keep running" if was_running else not_running)

    @group.command(
        help=(
            f"Show whether {server.title} runs, its address and its number of {counts}. Exit code 5 "
            "if it does not run."
        )
    )
    @verb(READS)
    async def status(run: Run) -> None:
        info = await server.ask({"do": "status"})
        if run.json:
            print_json(info)
        else:
            show(info)

    @group.command(help=f"Print the log of {server.title} itself.")
    @click.option("--lines", "-n", default=50, show_default=True, help="Number of lines from the end.")
    @verb(READS)
    async def logs(run: Run, lines: int) -> None:
        await _print_log_tail(run, server.state().log, lines)


async def _print_log_tail(run: Run, path: Path, lines: int) -> None:
    """Print the last lines of a log. Raises VerbFailure if there is no log yet."""
    try:
        text = await asyncio.to_thread(path.read_text, errors="replace")
    except FileNotFoundError as error:
        raise VerbFailure(f"there is no log at {path} yet", code="NOT_FOUND", exit_code=3) from error
    tail = text.splitlines()[-lines:]
    if run.json:
        print_json({"lines": tail})
    else:
        for line in tail:
            out(line)
