"""Implements `vxtui compare`."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from tui.domain.comparison.runs import Row, TaskOutcome, change_text, percent_text, rows_of, text_of
from tui.kinds.registry import kind_of
from tui.store.job.run_facts import read_facts
from tui.verbs.output import note, print_json, table
from tui.verbs.run import READS, Run, VerbFailure, find_job, verb


@click.command()
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.option("--all", "everything", is_flag=True, help="Also show equal rows.")
@verb(READS)
async def compare(run: Run, first: str, second: str, everything: bool) -> None:
    """Compare two runs of one kind: only the parameters, results and tasks that differ."""
    async with run.backend() as backend:
        jobs = [await find_job(backend, reference) for reference in (first, second)]
        nouns = [kind_of(job).words.noun for job in jobs]
        if jobs[0].kind != jobs[1].kind:
            raise VerbFailure(
                f"A {nouns[0]} can't be compared with a {nouns[1]}.",
                fix="Name two jobs of the same kind.",
                code="USAGE",
            )
        (job, facts), (other, more) = await asyncio.gather(*(read_facts(backend, job.name) for job in jobs))
    rows = rows_of(facts, more)
    shown = [row for row in rows if everything or row.differs]
    if run.json:
        print_json({"a": job.name, "b": other.name, "rows": [_json(row) for row in shown]})
        return
    if not shown:
        note(f"The two {nouns[0]}s do not differ in {len(rows)} lines.")
        return
    cells = [
        [row.part, row.name, text_of(row.first), text_of(row.second), change_text(row), percent_text(row)]
        for row in shown
    ]
    table(["", "NAME", "A", "B", "B-A", ""], cells, right=(4, 5))


def _json(row: Row) -> dict[str, Any]:
    return {
        "part": row.part,
        "name": row.name,
        "a": _value(row.first),
        "b": _value(row.second),
        "differs": row.differs,
        "change": row.change,
        "percent": row.percent,
    }


def _value(value: object) -> object:
    if isinstance(value, TaskOutcome):
        return {"state": value.state, "seconds": value.seconds, "cached": value.cached}
    return value
