"""`vxtui jobs` and `vxtui describe`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import click

from tui.backends.interface import Backend, BackendError
from tui.config.paths import state_dir
from tui.config.settings import Context, one_context
from tui.domain.core import formatting
from tui.domain.core.diagnosis import Diagnosis
from tui.domain.core.job import Job, with_parents
from tui.domain.core.states import JobState
from tui.domain.core.text import sentences
from tui.domain.core.training_progress import Progress
from tui.domain.fields.job_row import JobRow, JobSources
from tui.domain.fields.jobs import job_fields, job_json, steps_text
from tui.domain.jobs.query import JobQuery, QueryError, parse
from tui.domain.masking import masked
from tui.kinds.registry import kind_of, own_fields, region_word, titled
from tui.store.jobs.cost_sums import JobCosts
from tui.store.jobs.costs import read_prices
from tui.verbs.log.diagnosis import read_diagnosis
from tui.verbs.output import note, out, print_fields, print_json, table
from tui.verbs.run import READS, Failure, Run, find_job, parent_of, verb


@click.command()
@click.option(
    "--filter", "query", metavar="FILTER", default="", help="As on the screen, e.g. 'state:running team:nlp'."
)
@verb(READS)
async def jobs(run: Run, query: str) -> int:
    """List jobs over all regions of the context, newest first."""
    wanted = _parsed(query)
    found: list[Job] = []
    failed: list[BackendError] = []
    errors = []
    async with run.backend() as backend:
        async for page in backend.list_jobs():
            found += page.jobs
            if page.error is not None:
                said = {"region": page.region, "code": page.error.code, "message": page.error.message}
                # What keeps every kind of a region from being read is said once.
                if said not in errors:
                    failed.append(page.error)
                    errors.append(said)
        progress: Mapping[str, Progress] = {}
        try:
            progress = await backend.progress.read(
                [j for j in found if j.state is JobState.RUNNING and j.runs_itself]
            )
        except BackendError as unread:
            # The list itself was answered.
            note(sentences(f"The progress of running jobs can't be read: {unread.message}", unread.fix))
    found = with_parents(replace(j, progress=progress.get(j.runner, j.progress)) for j in found)
    now, listed = datetime.now(UTC), found
    found = [job for job in found if wanted.matches(job, now)]
    found.sort(key=lambda j: (j.create_time is not None, j.create_time), reverse=True)
    if run.json:
        costs = JobCosts(listed, read_prices(state_dir())[0], now)
        sources = JobSources(cost_json=costs.of)
        shown = [job_json(job, sources=sources) for job in found]
        print_json({"jobs": shown, "totals": costs.totals(found), "errors": errors})
    else:
        _print(found, now)
        if not found and query and not failed:
            note(f"No job matches the filter {query}.")
        elif not found and not failed:
            note(_first_run(run.context))
        for error in failed:
            note(sentences(error.message, error.fix))
    return failed[0].exit_code if failed and not found else 0


def _first_run(context: Context) -> str:
    """What an empty list says: how to launch a first job."""
    if context.kind == "group":
        return f"No jobs here yet. {one_context(context)}"
    profile, does = context.first_profile
    return f"No jobs here yet. `vxtui launch {profile}` {does}."


def _parsed(query: str) -> JobQuery:
    """The filter. Raises Failure with what is wrong in it."""
    try:
        return parse(query)
    except QueryError as error:
        message = f"The filter can't be read at character {error.position + 1}: {error.message}."
        raise Failure(message, fix="Write e.g. --filter 'state:running name:bert age<2d'.") from error


def _print(listed: list[Job], now: datetime) -> None:
    kinds = {job.kind for job in listed}
    sources = JobSources(words=lambda job: kind_of(job).words)
    # The kind and the context have a column if there are several.
    fields = job_fields(
        kinds,
        contexts=len({job.context for job in listed}) > 1,
        place=region_word(kinds),
        own=own_fields(kinds),
    )
    print_fields(fields, [JobRow(job, now, sources) for job in listed])


async def read_progress(backend: Backend, job: Job) -> Progress:
    """Training progress of a job, which its runner reports."""
    if not job.runner:
        return job.progress
    runner = replace(job, name=job.runner, id=job.runner.rpartition("/")[2])
    return (await backend.progress.read([runner])).get(job.runner, Progress())


async def _progress_or_error(backend: Backend, job: Job) -> Progress | BackendError:
    """Its progress, or why its log can't be read."""
    try:
        return await read_progress(backend, job)
    except BackendError as error:
        return error


@click.command()
@click.argument("job")
@click.option("--reveal", is_flag=True, help="Show secrets instead of masking them.")
@verb(READS)
async def describe(run: Run, job: str, reveal: bool) -> None:
    """Show one job. JOB is an id, a full resource name or a display name.

    Of several jobs with this name it shows the only one that runs. Secrets in its specification are masked.
    """
    async with run.backend() as backend:
        found = await find_job(backend, job)
        service = backend.job_service(found.name)
        # Each is a round trip of its own.
        found, said, spec, parent = await asyncio.gather(
            service.get(found.name),
            _progress_or_error(backend, found),
            service.spec(found.name),
            parent_of(backend, found),
        )
        diagnosis = await read_diagnosis(backend, found)
    found = replace(found, parent=parent.name if parent else "")
    progress = found.progress if isinstance(said, BackendError) else said
    if isinstance(said, BackendError):
        # The rest is known: what its log would tell is what is missing.
        note(sentences(f"The progress in its log can't be read: {said.message}", said.fix))
    if run.json:
        print_json({**job_json(found, progress, diagnosis), "resource": spec if reveal else masked(spec)[0]})
        return
    _print_job(found, parent, progress)
    _print_why(found, diagnosis)
    _print_replicas(found)


def _print_job(found: Job, parent: Job | None, progress: Progress) -> None:
    now = datetime.now(UTC)
    out(f"{found.display_name}  {found.state.value.lower()}  ({found.native_state})")
    out(f"  {found.name}")
    out(
        f"  {kind_of(found).words.noun}" + (f", part of the {titled(parent)} ({parent.id})" if parent else "")
    )
    for task in found.tasks:
        out(f"  task {task.name or task.id}: {task.job or 'no job yet'}  {task.state.value.lower()}")
    strategy = f", {found.strategy.lower()}" if found.groups else ""
    out(f"  age {formatting.age(found.age(now))}, ran {formatting.age(found.duration(now))}{strategy}")
    if found.persistent_resource:
        waits = "waits for replicas of" if found.state is JobState.PENDING else "on"
        out(f"  {waits} the persistent resource {found.persistent_resource}")
    if progress.step is not None:
        out(f"  step {steps_text(progress)}")


def _print_why(found: Job, diagnosis: Diagnosis | None) -> None:
    """Why it is in its state, and what to do about it."""
    if found.reason and found.error is None:
        out(f"  {found.reason}")
    for why in found.waiting if found.state.active else ():
        out(f"  waits: {why}")
    if found.error:
        note(f"  error {found.error.code}: {found.error.message}")
    if diagnosis is not None and diagnosis.meaning:
        out(f"  {'likely' if diagnosis.guess else 'that means'}: {diagnosis.meaning}")
    if diagnosis is not None and diagnosis.fix:
        out(f"  next step: {diagnosis.fix}")


def _print_replicas(found: Job) -> None:
    if not found.replicas:
        # A job made of tasks has none itself.
        return
    out("")
    rows = [
        [r.id, r.role, r.state.value.lower(), "" if r.exit_code is None else str(r.exit_code)]
        for r in found.replicas
    ]
    heads = ["REPLICA", "ROLE", "STATE", "EXIT"]
    if any(r.node or r.reason or r.restarts is not None for r in found.replicas):
        heads += ["RESTARTS", "NODE", "REASON"]
        for row, r in zip(rows, found.replicas, strict=True):
            row += ["" if r.restarts is None else str(r.restarts), r.node, r.reason]
    table(heads, rows, right=(3, 4) if len(heads) > 4 else (3,))
    if found.restarts_note:
        out(f"  {found.restarts_note}")
