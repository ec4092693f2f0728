"""Implements `vxtui emulator …`."""

from __future__ import annotations

from typing import Any

import click

from tui.actions.operations.emulator import EMULATOR
from tui.emulator.client import default_state_dir
from tui.verbs.emulator.faults import fault
from tui.verbs.emulator.gcloud import gcloud
from tui.verbs.emulator.kubernetes.group import kubernetes
from tui.verbs.emulator.server_verbs import add_server_verbs
from tui.verbs.output import out, print_json
from tui.verbs.run import Run, value_of, verb


@click.group()
def emulator() -> None:
    """A Vertex AI on this machine. Jobs keep running when it stops; it adopts them when it starts."""


@emulator.command()
@click.option(
    "--rest", metavar="HOST:PORT", help="Also serve REST, on a loopback address; port 0 picks a free port."
)
@click.option("--no-auth", is_flag=True, help="Accept REST clients without the token.")
@click.option(
    "--simulate-accelerators", is_flag=True, help="Simulate GPU metrics for machine types with GPUs."
)
@click.option("--foreground", is_flag=True, help="Run in this terminal until ctrl+c.")
@verb("emulator.start")
async def start(
    run: Run, rest: str | None, no_auth: bool, simulate_accelerators: bool, foreground: bool
) -> None:
    """Start the emulator."""
    operations = run.emulator_operations()
    if foreground:
        arguments = ["--rest", rest] if rest else []
        arguments += ["--no-auth"] if no_auth else []
        arguments += ["--simulate-accelerators"] if simulate_accelerators else []
        value_of(await operations.become(arguments))
    info = value_of(
        await operations.start(rest=rest, no_auth=no_auth, simulate_accelerators=simulate_accelerators)
    )
    if run.json:
        print_json(info)
    else:
        out(f"running, pid {info['pid']}, {info['socket']}")
        if info.get("rest"):
            out(f"REST on {info['rest']}" + ("" if no_auth else f", token in {default_state_dir().token}"))


@emulator.command()
@verb("emulator.repair")
async def repair(run: Run) -> None:
    """Repair damaged databases of the stopped emulator: keep the readable rows, move the damaged file
    aside."""
    databases = value_of(await run.emulator_operations().repair())
    if run.json:
        print_json({"databases": databases})
        return
    for database in databases:
        kept = f"{database['rows']} rows kept, the damaged file is {database['aside']}"
        out(f"{database['name']}: {kept if database['aside'] else 'sound'}")


def _show(info: dict[str, Any]) -> None:
    jobs = ", ".join(f"{n} {s.lower()}" for s, n in info["jobs"].items() if n)
    out(f"running, pid {info['pid']}, {jobs or 'no jobs'}")
    out(f"  socket {info['socket']}")
    out(f"  REST   {info['rest'] or 'off'}")
    out(f"  buckets {info['buckets']}")


_KUBERNETES = "; `vxtui emulator kubernetes stop` stops the local Kubernetes"
add_server_verbs(emulator, EMULATOR, Run.emulator_operations, _show, counts="jobs", hint=_KUBERNETES)
emulator.add_command(fault)
emulator.add_command(gcloud)
emulator.add_command(kubernetes)
