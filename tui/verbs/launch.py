"""`vxtui launch`."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import click

from tui.backends.base import Backend, LaunchRequest, Unavailable
from tui.config import choose_context, profile_folder
from tui.domain.job import Job
from tui.domain.profile import ProfileInvalid, Request
from tui.domain.states import JobState
from tui.store.library import NoProfile, find, read_profile
from tui.verbs.output import job_json, note, out, print_json
from tui.verbs.package import carry_out, plan_of
from tui.verbs.run import INTERRUPTED, Failure, Run, confirmed, verb

POLL_LOCAL, POLL_CLOUD = 0.5, 10.0
PATIENCE = 600.0
"""Seconds for which a wait bears a service that does not answer."""


@click.command()
@click.argument("profile")
@click.option(
    "--set", "assignments", multiple=True, metavar="NAME=VALUE", help="Set a parameter; repeatable."
)
@click.option("--region", metavar="REGION", help="Launch here instead of the profile's region.")
@click.option("--dry-run", is_flag=True, help="Print the exact request and send nothing.")
@click.option("--wait", is_flag=True, help="Wait for the end; exit 0 only if it succeeded.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@verb
async def launch(  # noqa: PLR0917 - one for each option
    run: Run,
    profile: str,
    assignments: tuple[str, ...],
    region: str | None,
    dry_run: bool,
    wait: bool,
    yes: bool,
) -> int:
    """Launch PROFILE: a name, or a path to a profile or a gcloud config file."""
    if not dry_run:
        run.must_be_writable("profile.launch")
    filled = fill(run, profile, assignments)
    request = addressed(run, filled, region or "")
    context = choose_context(run.settings, run.context_name)
    package = await plan_of(run, profile, filled, request.region)
    if package is not None:
        request = replace(request, custom_job=package.custom_job)
    path = f"projects/{context.project}/locations/{request.region}/customJobs"
    if dry_run:
        _print_dry_run(run, path, request)
        return 0
    body = request.custom_job
    pools = [p for p in body["jobSpec"]["workerPoolSpecs"] if p]
    count = sum(int(p.get("replicaCount", 1)) for p in pools)
    machines = ", ".join(dict.fromkeys(str(p.get("machineSpec", {}).get("machineType")) for p in pools))
    await confirmed(
        f"Launch {body['displayName']} ({count} replicas, {machines}) in {context.name}, {request.region}?",
        yes=yes,
    )
    async with run.backend() as backend:
        if package is not None:
            await carry_out(package, backend)
        job = await backend.create_job(request)
        note(f"created {job.name}")
        if wait:
            return await _wait(run, backend, job)
    if run.json:
        print_json(job_json(job))
    else:
        out(job.name)
    return 0


def prepare(run: Run, reference: str, assignments: tuple[str, ...], region: str) -> LaunchRequest:
    """The request of a profile with its parameters, its package not made. Raises Failure."""
    return addressed(run, fill(run, reference, assignments), region)


def addressed(run: Run, filled: Request, region: str) -> LaunchRequest:
    """With the region where it goes: the given one, else the profile's, else the context's first."""
    context = choose_context(run.settings, run.context_name)
    return LaunchRequest(region or filled.region or context.regions[0], filled.custom_job)


def fill(run: Run, reference: str, assignments: tuple[str, ...]) -> Request:
    """What a profile with its parameters asks for. Raises Failure."""
    values: dict[str, str] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise Failure(f"--set {text}: write NAME=VALUE.")
        values[name] = value
    try:
        path = find(reference, profile_folder(run.settings))
        return read_profile(path).render(values)
    except NoProfile as error:
        raise Failure(
            str(error), fix="`vxtui profiles list` shows what there is.", code="NOT_FOUND", exit_code=3
        ) from error
    except ProfileInvalid as error:
        raise Failure(str(error), fix="Nothing was sent.", code="INVALID_PROFILE") from error
    except OSError as error:
        raise Failure(f"The profile can't be read: {error}", code="INVALID_PROFILE") from error


def _print_dry_run(run: Run, path: str, request: LaunchRequest) -> None:
    if run.json:
        print_json(
            {"dry_run": True, "method": "POST", "path": f"/v1/{path}", "body": dict(request.custom_job)}
        )
        return
    out(f"POST /v1/{path}")
    out(json.dumps(dict(request.custom_job), indent=2))


async def _wait(run: Run, backend: Backend, job: Job) -> int:
    """Tell state changes on stderr until the end; the job goes on when we are interrupted."""
    pause = POLL_LOCAL if backend.info.local else POLL_CLOUD
    silent, said = 0.0, job.state
    note(f"{job.display_name}: {said.value.lower()}")
    try:
        while not job.state.terminal:
            await asyncio.sleep(pause)
            try:
                job = await backend.get_job(job.name)
                silent = 0.0
            except Unavailable as error:
                silent += pause
                if silent > PATIENCE:
                    raise
                note(f"{error.message} Trying again; the job is not affected.")
                await backend.connect()
            if job.state is not said:
                said = job.state
                note(f"{job.display_name}: {said.value.lower()}")
    except asyncio.CancelledError:
        note(f"no longer waiting; {job.display_name} goes on. `vxtui cancel {job.id}` would end it.")
        return INTERRUPTED
    progress = (await backend.read_progress([job]))[job.name]
    document: dict[str, Any] = job_json(job, progress)
    if run.json:
        print_json(document)
    else:
        out(job.name)
    if job.error:
        note(f"{job.display_name}: {job.error.message}")
    return 0 if job.state is JobState.SUCCEEDED else 1
