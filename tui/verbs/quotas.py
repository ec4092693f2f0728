"""Implements `vxtui quotas`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click

from tui.backends.interface import Backend
from tui.domain.core.quota import Quota
from tui.domain.fields.field import json_object
from tui.domain.fields.quotas import QUOTA_FIELDS, QuotaRow
from tui.domain.vertex import catalog
from tui.domain.vertex.quota_fit import Fit, fits_in, with_running
from tui.store.jobs.checks import active_jobs
from tui.verbs.launch import prepare
from tui.verbs.output import print_fields, print_json, table
from tui.verbs.run import READS, Run, check_regions, verb

STATUSES = ("fits", "unknown", "short")


@click.command()
@click.option("--region", "regions", multiple=True, metavar="REGION", help="Only this region; repeatable.")
@click.option("--all", "every", is_flag=True, help="Also show unused regions.")
@click.option("--fit", "profile", metavar="PROFILE", help="Show the regions where this profile fits.")
@verb(READS)
async def quotas(run: Run, regions: tuple[str, ...], every: bool, profile: str | None) -> None:
    """Show training quotas with limit, usage and free amount, or the regions where a profile fits."""
    check_regions(regions, run.context)
    if profile is not None:
        await _show_fit(run, profile, regions)
        return
    async with run.backend() as backend:
        listed = await _read(backend, regions)
        home = backend.info.regions
    if not every and not regions:
        listed = [q for q in listed if q.used or q.named or q.region in home]
    now = datetime.now(UTC)
    rows = [QuotaRow(quota, now) for quota in listed]
    if run.json:
        print_json({"quotas": [json_object(QUOTA_FIELDS, row) for row in rows]})
    else:
        print_fields(QUOTA_FIELDS, rows)


async def _show_fit(run: Run, profile: str, regions: tuple[str, ...]) -> None:
    """Print regions with their status; regions without the profile's accelerators only if named."""
    job = prepare(run, profile, ()).custom_job
    async with run.backend() as backend:
        home = backend.info.regions
        places = list(dict.fromkeys(regions or (*home, *catalog.regions())))
        listed = await _read(backend, places)
    fits = [fit for fit in fits_in(job, places, listed) if regions or not fit.hardware]
    fits.sort(key=lambda fit: STATUSES.index(fit.status))
    if run.json:
        print_json({"profile": profile, "regions": [_fit_json(fit) for fit in fits]})
        return
    table(("REGION", "FITS", ""), [[fit.region, fit.status, fit.sentence] for fit in fits])


async def _read(backend: Backend, regions: Sequence[str]) -> list[Quota]:
    """Read the quotas with the usage of running jobs, as every screen shows them."""
    now = datetime.now(UTC)
    listed, jobs = await asyncio.gather(backend.quotas.read(regions), active_jobs(backend))
    return with_running(listed, jobs, now)


def _fit_json(fit: Fit) -> dict[str, Any]:
    return {
        "region": fit.region,
        "verdict": fit.status,
        "sentence": fit.sentence,
        "missingHardware": fit.hardware or None,
        "metrics": [
            {
                "metric": line.metric,
                "need": line.need,
                "limit": line.limit,
                "used": line.used,
                "free": line.free,
                "short": line.short_by,
                "estimated": line.quota.estimated,
            }
            for line in fit.lines
        ],
    }
