"""`vxtui prices`: hourly machine prices; `refresh` reads current prices from the billing catalogue."""

from __future__ import annotations

from typing import Any

import click

from tui.config.paths import state_dir
from tui.domain.vertex import catalog
from tui.domain.vertex.cost import estimate, money
from tui.domain.vertex.dry_run import price_json
from tui.store.jobs.costs import fetched_words, keep_prices, read_prices, table_words
from tui.verbs.output import note, print_json, table
from tui.verbs.run import READS, Run, VerbFailure, check_regions, verb

STRATEGIES = ("STANDARD", "SPOT")


@click.command()
@click.argument("machines", nargs=-1, metavar="[MACHINE]…")
@click.option("--region", metavar="REGION", help="Region instead of the context's first.")
@verb(READS)
async def prices(run: Run, machines: tuple[str, ...], region: str | None) -> None:
    """Show the hourly price of MACHINE with its accelerators; without MACHINE, of all machines.

    With the single word `refresh`, read current prices from the Cloud Billing catalogue.
    """
    if machines == ("refresh",):
        await _refresh(run)
        return
    known = catalog.machines()
    wrong = [name for name in machines if name not in known]
    if wrong:
        raise VerbFailure(
            f"There is no training machine {wrong[0]}.", fix="`vxtui prices` shows all.", code="NOT_FOUND"
        )
    check_regions([region] if region else [], run.context)
    place = region or run.one_context.home_region
    table_of, problem = read_prices(state_dir())
    if problem:
        note(problem)
    shown = []
    for name in machines or known:
        for kind, count in _shapes(known[name]):
            estimates = {s: estimate(_job(name, kind, count, s), place, table_of) for s in STRATEGIES}
            shown.append((name, kind, count, estimates))
    if run.json:
        print_json(
            {
                "region": place,
                "date": table_of.date,
                "source": table_of.source,
                "simulated": table_of.simulated,
                "machines": [
                    {
                        "machine": name,
                        "accelerator": kind or None,
                        "count": count,
                        "standard": price_json(by["STANDARD"]),
                        "spot": price_json(by["SPOT"]),
                    }
                    for name, kind, count, by in shown
                ],
            }
        )
        return
    rows = [
        [
            name,
            f"{count} {catalog.ACCELERATOR_SHORT.get(kind, kind)}" if kind else "–",
            *(money(by[s].hour) for s in STRATEGIES),
            by["STANDARD"].oldest if by["STANDARD"].hour else "",
        ]
        for name, kind, count, by in shown
        if machines or by["STANDARD"].hour
    ]
    table(("MACHINE", "ACCEL", "$/H", "$/H SPOT", "OLDEST PRICE"), rows, right=(2, 3))
    if not rows:
        note(f"No prices in {place} are known; `vxtui prices refresh` reads them.")
    note(f"estimates in USD, {place}, boot disk of 100 GB included; {table_words(table_of)}")


async def _refresh(run: Run) -> None:
    async with run.backend() as backend:
        prices_read = await backend.prices.read()
    try:
        kept = keep_prices(state_dir(), prices_read)
    except OSError as error:
        raise VerbFailure(f"The prices can't be saved: {error}", code="IO") from error
    if run.json:
        print_json(
            {
                "date": prices_read.date,
                "source": prices_read.source,
                "simulated": prices_read.simulated,
                "kept": kept,
                "regions": len(prices_read.regions),
                "prices": sum(len(prices) for prices in prices_read.regions.values()),
            }
        )
    else:
        for line in fetched_words(prices_read, kept=kept).splitlines():
            note(line)


def _shapes(machine: catalog.Machine) -> list[tuple[str, int]]:
    """Return a machine's accelerators with their smallest count; none if they are optional."""
    plain = machine.name.startswith(("n1-", "e2-", "n2-", "n4-", "c2-", "m1-"))
    return [("", 0)] if plain else [(kind, counts[0]) for kind, counts in machine.accelerators]


def _job(machine: str, kind: str, count: int, strategy: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"machineType": machine}
    if kind:
        spec |= {"acceleratorType": kind, "acceleratorCount": count}
    return {
        "jobSpec": {
            "workerPoolSpecs": [{"machineSpec": spec, "replicaCount": 1}],
            "scheduling": {"strategy": strategy, "timeout": "3600s"},
        }
    }
