"""`vxtui quotas`."""

from __future__ import annotations

import click

from tui.domain.figures import NOT_MEASURED
from tui.domain.quota import UNLIMITED
from tui.verbs.output import print_json, table, when
from tui.verbs.run import Run, verb


@click.command()
@click.option("--region", "regions", multiple=True, metavar="REGION", help="Only this region; repeatable.")
@click.option("--all", "every", is_flag=True, help="Also regions in which nothing is used.")
@verb
async def quotas(run: Run, regions: tuple[str, ...], every: bool) -> None:
    """Show training quotas: limit, used, free."""
    async with run.backend() as backend:
        found = await backend.read_quotas(regions)
        home = backend.info.regions
    if not every and not regions:
        found = [q for q in found if q.used or q.region in home]
    if run.json:
        print_json(
            {
                "quotas": [
                    {
                        "metric": q.metric,
                        "region": q.region,
                        "limit": q.limit,
                        "used": q.used,
                        "free": q.free,
                        "preemptible": q.preemptible,
                        "limit_read_at": when(q.limit_read_at),
                        "used_at": when(q.used_at),
                    }
                    for q in found
                ]
            }
        )
        return
    rows = [
        [q.region, q.metric.removeprefix("custom_model_training_"), *map(_figure, (q.limit, q.used, q.free))]
        for q in found
    ]
    table(("REGION", "METRIC", "LIMIT", "USED", "FREE"), rows, right=(2, 3, 4))


def _figure(value: int | None) -> str:
    if value is None:
        return NOT_MEASURED
    return "unlimited" if value == UNLIMITED else f"{value:,}"
