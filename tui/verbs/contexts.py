"""`vxtui contexts`."""

from __future__ import annotations

from dataclasses import asdict

import click

from tui.config.settings import all_contexts, choose_context
from tui.verbs.output import print_json, table
from tui.verbs.run import Run, verb


@click.command()
@verb
async def contexts(run: Run) -> None:
    """List contexts; the current one is marked."""
    current = choose_context(run.settings, run.context_name).name
    found = all_contexts(run.settings)
    if run.json:
        print_json({"contexts": [{**asdict(c), "current": c.name == current} for c in found]})
        return
    rows = [
        ["*" if c.name == current else "", c.name, c.kind, c.project, ", ".join(c.regions)] for c in found
    ]
    table(("", "NAME", "KIND", "PROJECT", "REGIONS"), rows)
