"""Implements `vxtui contexts`."""

from __future__ import annotations

from dataclasses import asdict

import click

from tui.config.settings import all_contexts, choose_context
from tui.verbs.output import print_json, table
from tui.verbs.run import READS, Run, verb


@click.command()
@verb(READS)
async def contexts(run: Run) -> None:
    """List contexts and mark the current one."""
    current = choose_context(run.settings, run.context_name).name
    listed = all_contexts(run.settings)
    if run.json:
        shown = [
            {**asdict(c), "read_only": run.is_read_only(c), "current": c.name == current} for c in listed
        ]
        print_json({"contexts": shown})
        return
    rows = [
        [
            "*" if c.name == current else "",
            c.name,
            c.kind,
            "read-only" if run.is_read_only(c) else "",
            c.project,
            ", ".join(c.regions),
        ]
        for c in listed
    ]
    table(("", "NAME", "KIND", "ACCESS", "PROJECT", "REGIONS"), rows)
