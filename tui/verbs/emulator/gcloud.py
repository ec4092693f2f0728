"""`vxtui emulator gcloud`."""

from __future__ import annotations

import asyncio
import shlex
import sys

import click

from tui.emulator import launcher
from tui.emulator.gcloud import gcloud_environment
from tui.emulator.paths import StateDir, default_state_dir
from tui.verbs.output import note, out, print_json
from tui.verbs.run import READS, Run, value_of, verb

_USE = 'Use it by: eval "$(vxtui emulator gcloud)"; end it by: eval "$(vxtui emulator gcloud --unset)"'
_NO_SERVER = {"rest": "", "buckets": ""}


@click.command("gcloud")
@click.option("--unset", is_flag=True, help="Print what takes the variables out of the shell again.")
@verb(READS)
async def gcloud(run: Run, unset: bool) -> None:
    """Print the environment in which gcloud talks to the emulator, for the shell's eval.

    Starts the emulator, and opens REST on a free port, where that is missing. gcloud gets a configuration
    directory of its own: your accounts and settings stay as they are.
    """
    state, context = default_state_dir(), run.emulator_context
    info = _NO_SERVER if unset else await _with_rest(run, state)
    found = gcloud_environment(state, info, context.project, context.home_region)
    if run.json:
        print_json({"environment": found})
        return
    for name, value in found.items():
        out(f"unset {name}" if unset else f"export {name}={shlex.quote(value)}")
    if sys.stdout.isatty():
        note(_USE)


async def _with_rest(run: Run, state: StateDir) -> dict[str, object]:
    """The running emulator's status with its REST address. Raises what `emulator start` raises."""
    info = await asyncio.to_thread(launcher.status, state)
    if info is None or not info["rest"]:
        info = value_of(await run.emulator_operations().start(rest="127.0.0.1:0"))
    return dict(info)
