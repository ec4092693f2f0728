"""Implements `vxtui launch`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic
from urllib.parse import quote

import click

from tui.actions.operations.creation import INTERRUPT_SECONDS, SentLaunch
from tui.backends.factory import open_backend
from tui.backends.interface import Backend, BackendError, Unavailable
from tui.config.paths import state_dir
from tui.config.settings import Context, profile_folder
from tui.domain.core.diagnosis import Diagnosis
from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.domain.core.text import sentences
from tui.domain.core.training_progress import Progress
from tui.domain.fields.jobs import job_json
from tui.domain.jobs.diagnosis import silence_diagnosis
from tui.domain.jobs.waiting import waits
from tui.domain.masking import remember
from tui.domain.profile import Checked, Problem, ProfileInvalid, Request
from tui.domain.profile.job_name import expand, is_template, prefix
from tui.domain.tuning.study import best, study_of
from tui.domain.vertex.cost import Estimate
from tui.domain.vertex.dry_run import price_words
from tui.domain.vertex.preflight import Check
from tui.interrupts import INTERRUPTED
from tui.session import now
from tui.store.profiles.entries import size_of
from tui.store.profiles.launch_values import launch_values
from tui.store.profiles.library import NoProfile, check_in, find, read_profile
from tui.store.profiles.name_facts import claim, name_facts, named
from tui.verbs.dry_run import (
    QUICK,
    DryRun,
    connect_and_check,
    must_be_launchable,
    print_findings,
    run_checks,
    show_dry_run,
)
from tui.verbs.jobs import read_progress
from tui.verbs.log.diagnosis import read_diagnosis
from tui.verbs.log.waiting import with_reasons
from tui.verbs.output import note, out, print_json
from tui.verbs.package import StepPrinter, plan_of
from tui.verbs.run import (
    Run,
    VerbFailure,
    assigned,
    check_regions,
    confirmed,
    set_option,
    value_of,
    verb,
    yes_option,
)

POLL_LOCAL, POLL_CLOUD = 0.5, 10.0
REASONS_EVERY = 6
"""Number of polls between reads of the reasons why a job waits."""
READ_LOCAL, READ_CLOUD = 5.0, 30.0
"""Seconds between reads of the progress of a job that --wait waits for, which tells a silence."""
NAMES = 15.0
"""Seconds for which a dry run waits for the names of the jobs. A cluster's jobs are listed each time."""
PATIENCE = 600.0
"""Seconds after which --wait stops waiting for a service that does not answer."""


@click.command()
@click.argument("profile")
@set_option
@click.option(
    "--region", "--namespace", "-n", "region", metavar="REGION",
    help="Launch in this region, or namespace of a cluster, instead of the profile's.",
)  # fmt: skip
@click.option("--name", metavar="NAME", help="Job name, instead of the profile's; {n} is the next number.")
@click.option("--dry-run", is_flag=True, help="Run all checks and print the exact request; send nothing.")
@click.option("--wait", is_flag=True, help="Wait for the job to end; exit 0 only if it succeeded.")
@yes_option
@click.option("--force", is_flag=True, help="Launch even if a check predicts a failure.")
@click.option("--reveal", is_flag=True, help="Show secrets in the dry run instead of masking them.")
@verb("job.launch", dry_run=False)
async def launch(  # noqa: PLR0917 - one for each option
    run: Run,
    profile: str,
    assignments: tuple[str, ...],
    region: str | None,
    name: str | None,
    dry_run: bool,
    wait: bool,
    yes: bool,
    force: bool,
    reveal: bool,
) -> int:
    """Launch PROFILE: a name, or a path to a profile or a gcloud config file.

    Checks run first. If a check predicts a failure, the question includes it; with --yes the launch is
    refused (exit code 2) unless --force is set too. An inconclusive check does not stop the launch.
    """
    context = run.one_context
    check_regions([region] if region else [], context)
    checked = check(run, profile, assignments, region or "")
    request = checked.request
    if name:
        request = replace(request, custom_job={**request.custom_job, "displayName": name})
    if not checked.errors:
        request = await _named(run, find(profile, profile_folder(run.settings)), request, dry_run=dry_run)
    package = None
    if not checked.errors:
        package = await plan_of(run, profile, request)
    if package is not None:
        request = replace(request, custom_job=package.custom_job)
    remember(request.secrets)
    dry = DryRun(context.project, request, checked.problems, reveal=reveal)
    if dry_run:
        if not dry.errors:
            async with aclosing(open_backend(context, run.settings)) as backend:
                dry.checks = await connect_and_check(backend, request)
        return show_dry_run(dry, as_json=run.json)
    if dry.errors:
        raise _refused(dry.errors)
    async with run.backend() as backend:
        dry.checks = await run_checks(backend, request, QUICK)
        print_findings(dry)
        must_be_launchable(dry, interactive=not yes, force=force)
        fatal = [] if force else dry.fatal
        await confirmed(_question(request, context, fatal, dry.price), yes=yes)
        job = value_of(
            await run.job_operations(backend).launch(
                request, package, tell=StepPrinter().show, on_send=run.unanswered.append,
                on_interrupt=_note_interrupt,
            )
        )  # fmt: skip
        note(f"created {job.name}")
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            return _left_running(run, job, "interrupted")
        run.unanswered.clear()
        if wait:
            return await _wait(run, backend, job)
    _print(run, job)
    return 0


def _note_interrupt(sent: SentLaunch) -> None:
    note(
        f"interrupted after the request was sent: looking for the job with the label {sent.label} for "
        f"{INTERRUPT_SECONDS:.0f} s; ctrl+c again ends at once."
    )


def _left_running(run: Run, job: Job, why: str) -> int:
    """Print the job that keeps running after an interrupt. Return the exit code."""
    note(f"{why}; {job.display_name} keeps running. `vxtui cancel {job.id}` ends it.")
    _print(run, job)
    return INTERRUPTED


def _print(run: Run, job: Job, progress: Progress | None = None, diagnosis: Diagnosis | None = None) -> None:
    if run.json:
        print_json(job_json(job, progress, diagnosis))
    else:
        out(job.name)


def prepare(run: Run, reference: str, assignments: tuple[str, ...], region: str = "") -> Request:
    """Build the request of a profile with its parameters, without its package. Raises VerbFailure."""
    checked = check(run, reference, assignments, region)
    if checked.errors:
        raise _refused(checked.errors)
    return checked.request


async def _named(run: Run, profile: Path, request: Request, *, dry_run: bool) -> Request:
    """Fill in the placeholders of the request's name; list jobs only for `{n}`.

    A deleted job's name is not reused, because its outputs may still exist. Raises VerbFailure if the service
    would refuse the name. A dry run needs no service, so jobs that can't be listed within `NAMES` seconds
    don't count.
    """
    template = str(request.custom_job.get("displayName", ""))
    if not is_template(template):
        return _must_be_launchable_as(request)
    facts = await asyncio.to_thread(name_facts, profile, now(), request.custom_job)
    beginning, existing = prefix(template, facts), list[str]()
    if beginning is not None:
        existing += await asyncio.to_thread(run.launched_names)
        try:
            async with asyncio.timeout(NAMES if dry_run else None):
                existing += await _names_beginning(run, beginning)
        except (BackendError, TimeoutError) as error:
            if not dry_run:
                raise
            why = error.message if isinstance(error, BackendError) else f"no answer within {NAMES:.0f} s."
            note(f"note: the jobs can't be listed, so they don't count in the name: {why}")
    name = expand(template, facts, existing)
    folder = state_dir() / "names" / quote(run.context.name, safe="")
    while beginning is not None and not dry_run and not await asyncio.to_thread(claim, folder, name):
        name = expand(template, facts, [*existing, name])
    return _must_be_launchable_as(replace(request, custom_job={**request.custom_job, "displayName": name}))


def _must_be_launchable_as(request: Request) -> Request:
    """Return the request. Raises VerbFailure for a refused name or replicas that would never start."""
    problem = request.name_problem
    if problem is not None:
        name = request.custom_job.get("displayName")
        raise VerbFailure(f"{name}: {problem[0]}", fix=problem[1], code="INVALID_PROFILE")
    return request


async def named_offline(run: Run, reference: str, request: Request) -> Request:
    """Return the request with its name, for display and export. No service is called, and `{n}` is 1."""
    profile = find(reference, profile_folder(run.settings))
    if "{n}" in str(request.custom_job.get("displayName")):
        note("note: the number in the name is assigned at launch.")
    return replace(request, custom_job=await asyncio.to_thread(named, request.custom_job, profile, now()))


async def _names_beginning(run: Run, beginning: str) -> list[str]:
    """Return the names of jobs with this prefix, in the regions that answer. If the service can't filter, the
    result has other names too."""
    async with run.backend() as backend:
        streams = [jobs.list_all(filter=jobs.name_filter(beginning)) for jobs in backend.jobs.values()]
        return [job.display_name for stream in streams async for page in stream for job in page.jobs]


def _refused(problems: Sequence[Problem]) -> VerbFailure:
    return VerbFailure("\n".join(map(str, problems)), fix="Nothing was sent.", code="INVALID_PROFILE")


def check(run: Run, reference: str, assignments: tuple[str, ...], region: str) -> Checked:
    """Render a profile with its parameters and check it. Raises VerbFailure."""
    values = assigned(assignments)
    try:
        path = find(reference, profile_folder(run.settings))
        profile = read_profile(path)
        commands = {p.name: p.at_launch for p in profile.parameters}
        values = values | launch_values(
            commands, given_names=values, project=run.context.project, now=now(), folder=Path.cwd()
        )
        return check_in(profile, values, run.context, region)
    except NoProfile as error:
        raise VerbFailure(
            str(error), fix="`vxtui profiles list` lists all.", code="NOT_FOUND", exit_code=3
        ) from error
    except ProfileInvalid as error:
        raise VerbFailure(str(error), code="INVALID_PROFILE") from error
    except OSError as error:
        raise VerbFailure(f"The profile can't be read: {error}", code="INVALID_PROFILE") from error


def _question(request: Request, context: Context, fatal: Sequence[Check], price: Estimate) -> str:
    """Return the question before a launch: the job, its cost, and the reason why it would fail."""
    body = request.custom_job
    action = f"Launch {body['displayName']} ({size_of(body)}) in {context.name}, {request.region}"
    cost = f"Price: {price_words(price, billed=context.billed)}"
    return sentences(f"{action} anyway?" if fatal else f"{action}?", cost, *(check.words for check in fatal))


def _state_words(job: Job) -> str:
    """Return e.g. `sweep: running, 5/20 trials ended, best loss 2.51 by trial 4`."""
    words = [f"{job.display_name}: {job.state.value.lower()}"]
    ended, count = job.progress.step, job.progress.total_steps
    study = study_of(job)
    if job.composite and ended is not None:
        total = f"/{count}" if count else ""
        words.append(f"{ended}{total} {'trials' if study.goal else 'tasks'} ended")
    winner = best(job.tasks, study) if study.goal else None
    if study.goal is not None and winner is not None:
        words.append(f"best {study.goal.id} {winner.metrics[study.goal.id]:.6g} by trial {winner.id}")
    if job.waiting and job.state.active:
        words.append(f"waits: {job.waiting[0]}")
    if job.silence is not None:
        words.append(f"{job.silence.phrase} since {job.silence.since.astimezone():%H:%M:%S}")
    return ", ".join(words)


def _note_state(job: Job, words: str) -> None:
    """Print the job's state, and the next step for a silent job."""
    note(words)
    if job.silence is not None:
        note(f"→ {silence_diagnosis(job, job.silence).fix}")


async def _wait(run: Run, backend: Backend, job: Job) -> int:
    """Print the job's progress on stderr until the job ends. An interrupt does not end the job."""
    pause = POLL_LOCAL if backend.info.local else POLL_CLOUD
    silent, shown, explained, due = 0.0, "", job, 0.0
    progress, read_due = job.progress, 0.0
    try:
        while True:
            if waits(job):
                if job.state is not explained.state or monotonic() >= due:
                    explained, due = await with_reasons(backend, job), monotonic() + REASONS_EVERY * pause
                job = replace(job, waiting=explained.waiting, diagnosis=explained.diagnosis)
            elif job.state is JobState.RUNNING and job.runner:
                if monotonic() >= read_due:
                    read_due = monotonic() + (READ_LOCAL if backend.info.local else READ_CLOUD)
                    with suppress(BackendError):
                        # Without a readable log, the last known silence stays.
                        progress = await read_progress(backend, job)
                job = replace(job, progress=progress)
            words = _state_words(job)
            # Times and amounts in a reason change often.
            if re.sub(r"\d[\w,]*", "", words) != shown:
                shown = re.sub(r"\d[\w,]*", "", words)
                _note_state(job, words)
            if job.state.terminal:
                break
            await asyncio.sleep(pause)
            try:
                job = await backend.job_service(job.name).get(job.name)
                silent = 0.0
            except Unavailable as error:
                silent += pause
                if silent > PATIENCE:
                    raise
                note(sentences(error.message, "Retrying; the job is not affected."))
                await backend.connect()
    except asyncio.CancelledError:
        return _left_running(run, job, "no longer waiting")
    diagnosis = await read_diagnosis(backend, job)
    _print(run, job, (await backend.progress.read([job]))[job.name], diagnosis)
    if job.error:
        note(f"{job.display_name}: {job.error.summary}")
    if diagnosis is not None and diagnosis.fix:
        note(f"→ {sentences(diagnosis.meaning, diagnosis.fix)}")
    return 0 if job.state is JobState.SUCCEEDED else 1
