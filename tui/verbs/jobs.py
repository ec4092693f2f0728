"""`vxtui jobs` and `vxtui describe`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import click

from tui.backends.interface import Backend, BackendError
from tui.config.paths import state_dir
from tui.config.settings import Context, one_context
from tui.domain.attempts.interruptions import with_interruptions
from tui.domain.core import formatting
from tui.domain.core.diagnosis import Diagnosis
from tui.domain.core.job import Job, with_parents
from tui.domain.core.states import JobState
from tui.domain.core.text import sentences
from tui.domain.core.training_progress import Progress
from tui.domain.fields.attempts import attempts_json, attempts_words
from tui.domain.fields.job_row import JobRow, JobSources
from tui.domain.fields.jobs import job_fields, job_json, steps_text
from tui.domain.fields.replicas import REPLICA_FIELDS, replica_rows, with_remarks
from tui.domain.jobs.diagnosis import diagnosis_of
from tui.domain.jobs.query import JobQuery, QueryError, parse
from tui.domain.masking import masked
from tui.domain.vertex import cost
from tui.domain.vertex.prices import Range
from tui.kinds.registry import kind_of, own_fields, region_word, titled
from tui.store.jobs.attempts import AttemptCounts, read_attempts
from tui.store.jobs.causes import Causes, causes_in
from tui.store.jobs.cost_sums import JobCosts
from tui.store.jobs.costs import read_prices
from tui.verbs.log.diagnosis import read_diagnosis
from tui.verbs.log.waiting import all_with_reasons, with_reasons
from tui.verbs.output import note, out, print_fields, print_json
from tui.verbs.run import READS, Run, VerbFailure, find_job, parent_of, verb


@click.command()
@click.option(
    "--filter",
    "query",
    metavar="FILTER",
    default="",
    help="Filter as on the screen, e.g. 'state:running team:nlp'.",
)
@verb(READS)
async def jobs(run: Run, query: str) -> int:
    """List jobs over all regions of the context, newest first."""
    job_filter = _parsed(query)
    listed_jobs: list[Job] = []
    failed: list[BackendError] = []
    errors = []
    async with run.backend() as backend:
        async for page in backend.list_jobs():
            listed_jobs += page.jobs
            if page.error is not None:
                region_error = {"region": page.region, "code": page.error.code, "message": page.error.message}
                # Report an error that affects every kind of a region once.
                if region_error not in errors:
                    failed.append(page.error)
                    errors.append(region_error)
        progress: Mapping[str, Progress] = {}
        try:
            running = [j for j in listed_jobs if j.state is JobState.RUNNING and j.runs_itself]
            progress = await AttemptCounts(backend).add(running, await backend.progress.read(running))
        except BackendError as unread:
            # The list itself succeeded.
            note(sentences(f"The progress of running jobs can't be read: {unread.message}", unread.fix))
        listed_jobs = await all_with_reasons(backend, listed_jobs)
    listed_jobs = with_parents(replace(j, progress=progress.get(j.runner, j.progress)) for j in listed_jobs)
    now, listed = datetime.now(UTC), listed_jobs
    listed_jobs = [job for job in listed_jobs if job_filter.matches(job, now)]
    listed_jobs.sort(key=lambda j: (j.create_time is not None, j.create_time), reverse=True)
    causes = causes_in(state_dir())
    causes.load(listed_jobs)
    if run.json:
        costs = JobCosts(listed, read_prices(state_dir())[0], now)
        sources = JobSources(cost_json=costs.of)
        shown = [job_json(job, diagnosis=causes.of(job), sources=sources) for job in listed_jobs]
        print_json({"jobs": shown, "totals": costs.totals(listed_jobs), "errors": errors})
    else:
        _print(listed_jobs, now, causes)
        if not listed_jobs and query and not failed:
            note(f"No job matches the filter {query}.")
        elif not listed_jobs and not failed:
            note(_first_run(run.context))
        for error in failed:
            note(sentences(error.message, error.fix))
    return failed[0].exit_code if failed and not listed_jobs else 0


def _first_run(context: Context) -> str:
    """Return the hint for an empty list, with the command that launches a first job."""
    if context.kind == "group":
        return f"No jobs here yet. {one_context(context)}"
    profile, does = context.first_profile
    return f"No jobs here yet. `vxtui launch {profile}` {does}."


def _parsed(query: str) -> JobQuery:
    """Parse the filter. Raises VerbFailure."""
    try:
        return parse(query)
    except QueryError as error:
        message = f"The filter can't be read at character {error.position + 1}: {error.message}."
        raise VerbFailure(message, fix="Write e.g. --filter 'state:running name:bert age<2d'.") from error


def _print(listed: list[Job], now: datetime, causes: Causes) -> None:
    kinds = {job.kind for job in listed}
    sources = JobSources(words=lambda job: kind_of(job).words)
    # The kind and the context have a column if there are several.
    fields = job_fields(
        kinds,
        contexts=len({job.context for job in listed}) > 1,
        place=region_word(kinds),
        own=own_fields(kinds),
    )
    print_fields(fields, [JobRow(job, now, sources, causes.of(job)) for job in listed])


async def read_progress(backend: Backend, job: Job) -> Progress:
    """Return the training progress of a job, which its runner reports."""
    if not job.runner:
        return job.progress
    runner = replace(job, name=job.runner, id=job.runner.rpartition("/")[2])
    return (await backend.progress.read([runner])).get(job.runner, Progress())


async def _progress_or_error(backend: Backend, job: Job) -> Progress | BackendError:
    """Return a job's progress, or why its log can't be read."""
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

    If several jobs share the name, the only running one is shown. Secrets in its specification are masked.
    """
    async with run.backend() as backend:
        target = await find_job(backend, job)
        service = backend.job_service(target.name)
        # Each call is a separate round trip.
        target, read, spec, parent, attempts = await asyncio.gather(
            service.get(target.name),
            _progress_or_error(backend, target),
            service.spec(target.name),
            parent_of(backend, target),
            read_attempts(backend, target),
        )
        target = await with_reasons(backend, target)
        diagnosis = await read_diagnosis(backend, target)
    target = replace(target, parent=parent.name if parent else "")
    if attempts is not None:
        target = replace(target, replicas=with_interruptions(target.replicas, attempts.milestones))
    progress = target.progress if isinstance(read, BackendError) else read
    if isinstance(read, BackendError):
        # Everything else is known; only the log's progress is missing.
        note(sentences(f"The progress in the job's log can't be read: {read.message}", read.fix))
    target = replace(target, progress=progress)
    target = with_remarks(target, progress, datetime.now(UTC))
    prices = read_prices(state_dir())[0]
    hour = cost.hourly(target, prices)
    diagnosis = diagnosis or diagnosis_of(target)
    if run.json:
        resource = spec if reveal else masked(spec)[0]
        spent = cost.spent(target, datetime.now(UTC), prices)
        history = None if attempts is None else attempts_json(attempts, spent)
        facts = {"straggler": _straggler_json(target, hour), "history": history, "resource": resource}
        print_json(job_json(target, diagnosis=diagnosis) | facts)
        return
    _print_job(target, parent)
    if attempts is not None and len(attempts.attempts) > 1:
        out(f"  {attempts_words(attempts)}")
    if progress.straggler is not None:
        lost = cost.money(cost.lost_to(progress.straggler, target, hour), "/h")
        out(f"  {progress.straggler.words}: {lost}")
    _print_why(target, diagnosis)
    _print_replicas(target)


def _straggler_json(job: Job, hour: Range | None) -> dict[str, Any] | None:
    """Return the slow replica in the documented JSON format."""
    slow = job.progress.straggler
    if slow is None:
        return None
    usd = cost.lost_to(slow, job, hour)
    lost = None if usd is None else {"low": round(usd.low, 6), "high": round(usd.high, 6)}
    return {"replica": slow.replica, "slower": slow.slower, "usd_per_hour": lost}


def _print_job(job: Job, parent: Job | None) -> None:
    now, progress = datetime.now(UTC), job.progress
    out(f"{job.display_name}  {job.state.value.lower()}  ({job.native_state})")
    out(f"  {job.name}")
    out(f"  {kind_of(job).words.noun}" + (f", part of the {titled(parent)} ({parent.id})" if parent else ""))
    for task in job.tasks:
        out(f"  task {task.name or task.id}: {task.job or 'no job yet'}  {task.state.value.lower()}")
    strategy = f", {job.strategy.lower()}" if job.groups else ""
    ran = (
        f"waiting {formatting.age(job.wait(now))}"
        if job.waits
        else f"ran {formatting.age(job.duration(now))}"
    )
    out(f"  age {formatting.age(job.age(now))}, {ran}{strategy}")
    if job.persistent_resource and not job.waiting:
        out(f"  on the persistent resource {job.persistent_resource}")
    if progress.step is not None:
        out(f"  step {steps_text(progress)}")
    if job.silence is not None:
        out(f"  {formatting.silence_text(job.silence, now)}")


def _print_why(job: Job, diagnosis: Diagnosis | None) -> None:
    """Print why the job is in its state, and the remedy."""
    if job.reason and job.error is None:
        out(f"  {job.reason}")
    for why in job.waiting if job.state.active else ():
        out(f"  waits: {why}")
    if job.error:
        note(f"  error {job.error.code}: {job.error.summary}")
    if diagnosis is not None and diagnosis.meaning:
        out(f"  {'likely' if diagnosis.guess else 'that means'}: {diagnosis.meaning}")
    if diagnosis is not None and diagnosis.fix:
        out(f"  next step: {diagnosis.fix}")
    if job.state is JobState.FAILED and diagnosis is not None and diagnosis.meaning:
        out(f"  evidence: vxtui diagnose {job.id}")


def _print_replicas(job: Job) -> None:
    if not job.replicas:
        # A job that has tasks has no replicas itself.
        return
    out("")
    print_fields(REPLICA_FIELDS, replica_rows(job))
    if job.restarts_note:
        out(f"  {job.restarts_note}")
