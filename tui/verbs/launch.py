"""`vxtui launch`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import click

from tui.backends.factory import open_backend
from tui.backends.interface import Backend, LaunchRequest, Unavailable
from tui.config.settings import choose_context, profile_folder
from tui.domain.formatting import pieces
from tui.domain.job import Job
from tui.domain.preflight import Check
from tui.domain.profile import Checked, Problem, ProfileInvalid, Request
from tui.domain.states import JobState
from tui.domain.vertex.custom_job_spec import within
from tui.store.profiles.library import NoProfile, find, read_profile
from tui.verbs.dry_run import QUICK, Ahead, look, look_from_outside, must_be_launchable, show_dry_run, tell
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
@click.option("--dry-run", is_flag=True, help="Check all, print the exact request, send nothing.")
@click.option("--wait", is_flag=True, help="Wait for the end; exit 0 only if it succeeded.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--force", is_flag=True, help="Launch all the same where a check says that it would fail.")
@verb
async def launch(  # noqa: PLR0917 - one for each option
    run: Run,
    profile: str,
    assignments: tuple[str, ...],
    region: str | None,
    dry_run: bool,
    wait: bool,
    yes: bool,
    force: bool,
) -> int:
    """Launch PROFILE: a name, or a path to a profile or a gcloud config file.

    What it needs is looked up first. Where a check says that it would fail, the question says so, and with
    --yes it is not sent (exit code 2) unless --force is there too. What can't be told stops nobody.
    """
    if not dry_run:
        run.must_be_writable("profile.launch")
    checked = check(run, profile, assignments, region or "")
    request = addressed(run, checked.request, region or "")
    context = choose_context(run.settings, run.context_name)
    package = None
    if not checked.errors:
        package = await plan_of(run, profile, checked.request, request.region)
    if package is not None:
        request = replace(request, custom_job=package.custom_job)
    ahead = Ahead(context.project, request, checked.problems)
    if dry_run:
        if not ahead.errors:
            async with aclosing(open_backend(context, run.settings)) as backend:
                ahead.checks = await look_from_outside(backend, request)
        return show_dry_run(ahead, as_json=run.json)
    if ahead.errors:
        raise _refused(ahead.errors)
    async with run.backend() as backend:
        ahead.checks = await look(backend, request, QUICK)
        tell(ahead)
        must_be_launchable(ahead, asked=not yes, force=force)
        doubts = [] if force else ahead.fatal
        await confirmed(_question(request, context.name, doubts), yes=yes)
        if package is not None:
            await carry_out(package, backend)
        job = await backend.jobs["custom_job"].create(request)
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
    """What a profile with its parameters asks for. Raises Failure, for the rules' errors too."""
    checked = check(run, reference, assignments, "")
    if checked.errors:
        raise _refused(checked.errors)
    return checked.request


def _refused(problems: Sequence[Problem]) -> Failure:
    return Failure("\n".join(map(str, problems)), fix="Nothing was sent.", code="INVALID_PROFILE")


def check(run: Run, reference: str, assignments: tuple[str, ...], region: str) -> Checked:
    """What a profile with its parameters asks for, and what is wrong with it. Raises Failure."""
    values: dict[str, str] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise Failure(f"--set {text}: write NAME=VALUE.")
        values[name] = value
    try:
        path = find(reference, profile_folder(run.settings))
        context, profile = choose_context(run.settings, run.context_name), read_profile(path)
        checked = profile.check(values, region=region, local=context.kind == "local")
        if checked.request.region:
            return checked
        return profile.check(values, region=context.regions[0], local=context.kind == "local")
    except NoProfile as error:
        raise Failure(
            str(error), fix="`vxtui profiles list` shows what there is.", code="NOT_FOUND", exit_code=3
        ) from error
    except ProfileInvalid as error:
        raise Failure(str(error), fix="Nothing was sent.", code="INVALID_PROFILE") from error
    except OSError as error:
        raise Failure(f"The profile can't be read: {error}", code="INVALID_PROFILE") from error


def _question(request: LaunchRequest, context: str, doubts: Sequence[Check]) -> str:
    """Names what is launched, and why it would fail."""
    body = request.custom_job
    pools = [pool for pool in body["jobSpec"]["workerPoolSpecs"] if pool]
    count = sum(int(pool.get("replicaCount", 1)) for pool in pools)
    machines = ", ".join(dict.fromkeys(str(within(pool, "machineSpec", "machineType")) for pool in pools))
    size = f"{pieces(count, 'replica')}, {machines}"
    what = f"Launch {body['displayName']} ({size}) in {context}, {request.region}"
    return " ".join([f"{what} all the same?" if doubts else f"{what}?", *(check.words for check in doubts)])


async def _wait(run: Run, backend: Backend, job: Job) -> int:
    """Tell state changes on stderr until the end; the job goes on when we are interrupted."""
    pause = POLL_LOCAL if backend.info.local else POLL_CLOUD
    silent, said = 0.0, job.state
    note(f"{job.display_name}: {said.value.lower()}")
    try:
        while not job.state.terminal:
            await asyncio.sleep(pause)
            try:
                job = await backend.job_service(job.name).get(job.name)
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
    progress = (await backend.progress.read([job]))[job.name]
    document: dict[str, Any] = job_json(job, progress)
    if run.json:
        print_json(document)
    else:
        out(job.name)
    if job.error:
        note(f"{job.display_name}: {job.error.message}")
    return 0 if job.state is JobState.SUCCEEDED else 1
