"""Implements `vxtui emulator kubernetes …`."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from tui.actions.operations.kubernetes_emulator import KUBERNETES
from tui.emulator.client import default_kubernetes_state, server_status
from tui.verbs.emulator.kubernetes.faults import fault
from tui.verbs.emulator.server_verbs import add_server_verbs
from tui.verbs.output import note, out, print_json
from tui.verbs.run import READS, Run, value_of, verb


@click.group()
def kubernetes() -> None:
    """A Kubernetes with Kubeflow on this machine. Pods keep running when it stops."""


@kubernetes.command()
@click.option("--foreground", is_flag=True, help="Run in this terminal until ctrl+c.")
@verb("emulator.start")
async def start(run: Run, foreground: bool) -> None:
    """Start Kubernetes."""
    operations = run.kubernetes_operations()
    if foreground:
        value_of(await operations.become())
    info = value_of(await operations.start())
    if run.json:
        print_json(info)
    else:
        out(f"running, pid {info['pid']}, {info['server']}")
        out(f"kubeconfig {info['kubeconfig']}, context {info['context']}")


@kubernetes.command()
@verb(READS)
async def kubeconfig(run: Run) -> None:
    """Print the path of the kubeconfig, for kubectl; start Kubernetes if it does not run."""
    state = default_kubernetes_state()
    info = await asyncio.to_thread(server_status, state)
    if info is None:
        info = value_of(await run.kubernetes_operations().start())
    if run.json:
        print_json({"kubeconfig": info["kubeconfig"], "context": info["context"]})
    else:
        out(info["kubeconfig"])


def _show(info: dict[str, Any]) -> None:
    counts = info.get("objects")
    objects = "no objects" if counts is not None else "objects not counted"
    objects = ", ".join(f"{count} {plural}" for plural, count in (counts or {}).items()) or objects
    out(f"running, pid {info['pid']}, {objects}")
    out(f"  server     {info['server']}")
    out(f"  kubeconfig {info['kubeconfig']}")
    if counts is None:
        # A server outlives the vxtui that started it, and may be older than this vxtui.
        command = default_kubernetes_state().COMMAND
        note(
            f"An older vxtui started the server. Restart it with `{command} stop`, then `start`; its "
            "pods keep running."
        )


add_server_verbs(kubernetes, KUBERNETES, Run.kubernetes_operations, _show, counts="objects")
kubernetes.add_command(fault)
