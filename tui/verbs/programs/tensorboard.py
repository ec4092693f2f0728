"""`vxtui tensorboard`: TensorBoard on a job's events, until Ctrl+C."""

from __future__ import annotations

import asyncio
import sys

import click

from tui import tensorboard as boards
from tui.tensorboard import TensorBoardError
from tui.verbs.output import note, out, print_json
from tui.verbs.run import READS, Run, VerbFailure, find_job, verb
from tui.web_browser import open_page


@click.command()
@click.argument("job")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Port; by default the first free port from 6006 on."
)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@verb(READS)
async def tensorboard(run: Run, job: str, port: int | None, no_browser: bool) -> int:
    """Show the events of JOB in TensorBoard, until Ctrl+C. A tuning job shows each trial as a run.

    It starts the installed TensorBoard on baseOutputDirectory/logs.
    """
    try:
        async with run.backend() as backend:
            folder = await boards.events_of(backend, await find_job(backend, job))
        async with boards.tensorboard(folder, port) as running:
            return await _follow(run, running, no_browser)
    except TensorBoardError as error:
        raise VerbFailure(error.message, fix=error.fix, code=error.code, exit_code=error.exit_code) from error


async def _follow(run: Run, running: boards.Running, no_browser: bool) -> int:
    """Print the address, and wait until the program ends or the user interrupts it. Raises
    TensorBoardError."""
    if run.json:
        print_json({"url": running.url, "log_dir": running.folder, "pid": running.pid})
    else:
        out(running.url)
        note(f"TensorBoard shows {running.folder}; ctrl+c ends it.")
    sys.stdout.flush()
    if not no_browser:
        await asyncio.to_thread(open_page, running.url)
    try:
        code = await running.process.wait()
    except asyncio.CancelledError:
        # Ctrl+C and SIGTERM are the normal ways to end TensorBoard.
        return 0
    if code > 0:
        raise TensorBoardError(f"TensorBoard has ended with exit code {code}.")
    # The terminal's Ctrl+C also reaches TensorBoard, and may end it first.
    return 0
