"""`vxtui resources`: list persistent resources, create one, reboot and delete."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import click

from tui.backends.interface import Backend
from tui.config.paths import state_dir
from tui.domain.core.formatting import pieces, rfc3339
from tui.domain.core.job import Job
from tui.domain.fields.field import json_object
from tui.domain.fields.resources import POOL_FIELDS, RESOURCE_FIELDS, ResourceRow
from tui.domain.resources.persistent import PersistentResource, jobs_on, parts_of, resource_of
from tui.domain.vertex.cost import an_hour, hourly_parts
from tui.session import now
from tui.store.jobs.costs import read_prices
from tui.verbs.launch import prepare
from tui.verbs.lists.group import ListGroup
from tui.verbs.lists.lookup import Noun, end, errors_json, one_of
from tui.verbs.output import note, print_json, print_nested
from tui.verbs.run import (
    READS,
    Run,
    VerbFailure,
    check_regions,
    confirmed,
    set_option,
    value_of,
    verb,
    yes_option,
)

RESOURCE = Noun("persistent resource", "vxtui resources", chosen_id=True)
_ID = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
"""Ids that the service accepts (docs/facts/vertex.md 12.1)."""


@click.group(cls=ListGroup, first="show")
def resources() -> None:
    """Persistent resources: machines that stay, on which jobs run without provisioning.

    Without a command: list them, or show RESOURCE, an id or a resource name. They cost money while they run,
    used or not. A profile runs on one with `persistentResourceId: ID` in its jobSpec.
    """


@resources.command()
@click.argument("resource", required=False)
@verb(READS)
async def show(run: Run, resource: str | None) -> int:
    """List them, or show RESOURCE."""
    async with run.backend() as backend:
        results = await backend.resources.list_all()
        shown = results.items if resource is None else [one_of(backend, results, resource, RESOURCE)]
        jobs = await _jobs_of(backend, shown)
    if run.json:
        objects = [json_object(RESOURCE_FIELDS, row) for row in _rows(shown, jobs)]
        print_json({"resources": objects, "errors": errors_json(results)})
    else:
        _print(_rows(shown, jobs))
        if not shown and not results.errors:
            note(
                "No persistent resources here. `vxtui resources create NAME --from PROFILE` creates "
                "a resource."
            )
    return end(run, results)


@resources.command()
@click.argument("name")
@click.option(
    "--from", "profile", required=True, metavar="PROFILE", help="Use the machines of this profile's pools."
)
@set_option
@click.option(
    "--region", metavar="REGION", help="Create the resource in this region instead of the profile's."
)
@yes_option
@verb("resource.create")
async def create(  # noqa: PLR0917 - one for each option
    run: Run, name: str, profile: str, assignments: tuple[str, ...], region: str | None, yes: bool
) -> int:
    """Create the persistent resource NAME with the machines that PROFILE's worker pools need."""
    check_regions([region] if region else [], run.one_context)
    if not _ID.fullmatch(name):
        raise VerbFailure(
            f"{name} can't be the id of a persistent resource.",
            fix=(
                "An id must have at most 63 lowercase letters, digits and dashes, start with a letter "
                "and not end with a dash."
            ),
            code="INVALID_ARGUMENT",
        )
    request = prepare(run, profile, assignments, region or "")
    body = resource_of(request.custom_job)
    body["displayName"] = name
    if not body["resourcePools"]:
        raise VerbFailure(f"{profile} has no worker pools to take machines from.", code="INVALID_ARGUMENT")
    async with run.backend() as backend:
        place = request.region or backend.info.regions[0]
        machines = ", ".join(
            f"{pool['replicaCount']} × {pool['machineSpec'].get('machineType')}"
            for pool in body["resourcePools"]
        )
        hour = hourly_parts(parts_of(body), place, read_prices(state_dir())[0])
        await confirmed(
            f"Create the persistent resource {name} ({machines}) in {place}? The resource costs "
            f"{an_hour(hour)} until it is deleted, used or not.",
            yes=yes,
        )
        created = value_of(await run.resource_operations(backend).create(place, name, body))
    _print_one(run, created)
    return 0


@resources.command()
@click.argument("resource")
@yes_option
@verb("resource.reboot")
async def reboot(run: Run, resource: str, yes: bool) -> int:
    """Reboot the machines of RESOURCE; refused while jobs are on it."""
    async with run.backend() as backend:
        target = one_of(backend, await backend.resources.list_all(), resource, RESOURCE)
        await confirmed(f"Reboot {target.id} ({pieces(target.replicas, 'replica')})?", yes=yes)
        rebooted = value_of(await run.resource_operations(backend).reboot(target))
    _print_one(run, rebooted)
    return 0


@resources.command()
@click.argument("resource")
@yes_option
@verb("resource.delete")
async def delete(run: Run, resource: str, yes: bool) -> int:
    """Delete RESOURCE, which cancels its jobs."""
    async with run.backend() as backend:
        target = one_of(backend, await backend.resources.list_all(), resource, RESOURCE)
        on = jobs_on(target, (await _jobs_of(backend, [target]))[target.name])
        ends = f", which cancels {pieces(len(on), 'job')}" if on else ""
        await confirmed(f"Delete {target.id} ({pieces(target.replicas, 'replica')}){ends}?", yes=yes)
        value_of(await run.resource_operations(backend).delete(target))
    if run.json:
        print_json({"deleted": target.name, "cancels": [job.name for job in on]})
    else:
        note(f"Deleting {target.id}{ends}.")
    return 0


async def _jobs_of(backend: Backend, resources_read: Sequence[PersistentResource]) -> dict[str, list[Job]]:
    """Return the jobs of each resource by its name. Only jobs younger than the oldest resource are listed."""
    jobs: dict[str, list[Job]] = {read.name: [] for read in resources_read}
    times = [read.create_time for read in resources_read if read.create_time is not None]
    service = backend.jobs.get("custom_job")
    if service is None or not resources_read:
        return jobs
    since = f'create_time>="{rfc3339(min(times))}"' if len(times) == len(resources_read) else ""
    async for page in service.list_all(filter=since):
        for read in resources_read:
            jobs[read.name] += [job for job in page.jobs if read.runs(job)]
    return jobs


def _rows(results: Sequence[PersistentResource], jobs: Mapping[str, list[Job]]) -> list[ResourceRow]:
    prices, at = read_prices(state_dir())[0], now()
    return [
        ResourceRow(
            resource,
            jobs.get(resource.name, []),
            at,
            hourly_parts(resource.parts(), resource.region, prices),
            prices_of=prices.date,
        )
        for resource in results
    ]


def _print(rows: Sequence[ResourceRow]) -> None:
    """Print a line per pool, and the errors of resources on stderr."""
    print_nested(RESOURCE_FIELDS, POOL_FIELDS, [(row, row.resource.pools) for row in rows])
    for row in rows:
        if row.resource.error:
            note(f"{row.resource.id}: {row.resource.error}")


def _print_one(run: Run, resource: PersistentResource) -> None:
    if run.json:
        print_json({"resource": json_object(RESOURCE_FIELDS, _rows([resource], {})[0])})
    else:
        note(
            f"{resource.id} is {resource.state.lower()}; `vxtui resources {resource.id}` shows its progress."
        )
