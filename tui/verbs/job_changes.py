"""`vxtui cancel`, `delete`, `suspend`, `resume`, `scale` and `rerun`."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import click

from tui.domain.core import formatting
from tui.domain.core.formatting import pieces
from tui.domain.core.job import Job
from tui.domain.fields.jobs import job_json
from tui.domain.jobs.changes import scale_problem
from tui.domain.kubernetes.changes import bounds_words
from tui.domain.pipeline.rerun import reused
from tui.kinds.registry import kind_of, may_cancel, titled
from tui.verbs.output import note, out, print_json
from tui.verbs.run import Run, confirmed, find_job, may_change, parent_of, value_of, verb, yes_option

PATIENCE = 30.0


@click.command()
@click.argument("job")
@yes_option
@click.option("--no-wait", is_flag=True, help="Do not wait for the job to end.")
@verb("job.cancel")
async def cancel(run: Run, job: str, yes: bool, no_wait: bool) -> None:
    """Cancel JOB and wait up to 30 seconds for it to end.

    JOB is an id, a resource name or a display name; of several jobs with this name the only one that runs.
    """
    async with run.backend() as backend:
        found = await find_job(backend, job)
        # The operation refuses what can't be cancelled, and records that: there is nothing to ask.
        suspends = kind_of(found).cancel_suspends
        if may_change("job.cancel", found, backend):
            parent = None if yes else await parent_of(backend, found)
            goes_on = parent is None or parent.composite or not parent.state.active
            ends = "" if goes_on or parent is None else f", which ends the {titled(parent)}"
            ends = ", which suspends it: its pods end, the job stays" if suspends else ends
            stakes = formatting.stakes(found, datetime.now(UTC))
            await confirmed(f"Cancel {found.display_name} ({stakes}){ends}?", yes=yes)
        value_of(await run.job_operations(backend).cancel(found))
        pause = 0.2 if backend.info.local else 2.0
        waited = 0.0
        while not no_wait and may_cancel(found) and waited < PATIENCE:
            await asyncio.sleep(pause)
            waited += pause
            found = await backend.job_service(found.name).get(found.name)
    if run.json:
        print_json(job_json(found))
    else:
        out(f"{found.display_name}: {'cancel requested' if no_wait else found.state.value.lower()}")
    if may_cancel(found) and not no_wait:
        note(
            f"The job has not ended within {PATIENCE:.0f} s; it is still being cancelled. "
            f"`vxtui describe {found.id}` shows its state."
        )


@click.command()
@click.argument("job")
@yes_option
@verb("job.delete")
async def delete(run: Run, job: str, yes: bool) -> None:
    """Delete JOB, which must have ended; of several jobs with this name the only one that has.

    A job in a cluster may be deleted before: its pods end (propagation Foreground), then it is gone.
    """
    async with run.backend() as backend:
        found = await find_job(backend, job, ended=True)
        if may_change("job.delete", found, backend):
            parts = {name for task in found.tasks for name in task.jobs}
            stay = f", whose {pieces(len(parts), 'job stays', 'jobs stay')}" if parts else ""
            state = found.state.value.lower()
            await confirmed(f"Delete {found.display_name} ({found.id}, {state}){stay}?", yes=yes)
        cancel = f"vxtui cancel {found.id}" if backend.offers("jobs.cancel", found.kind) else ""
        fixes = {"FAILED_PRECONDITION": cancel or "Wait for its end."}
        value_of(await run.job_operations(backend).delete(found), fixes)
    if run.json:
        print_json({"deleted": found.name})
    else:
        out(f"deleted {found.name}")


@click.command()
@click.argument("job")
@yes_option
@verb("job.suspend")
async def suspend(run: Run, job: str, yes: bool) -> None:
    """Suspend JOB in a cluster: its pods end, and it starts again when it is resumed."""
    async with run.backend() as backend:
        found = await find_job(backend, job)
        if may_change("job.suspend", found, backend):
            stakes = formatting.stakes(found, datetime.now(UTC))
            await confirmed(f"Suspend {found.display_name} ({stakes})?", yes=yes)
        value_of(await run.job_operations(backend).suspend(found))
        _print_changed(run, await backend.job_service(found.name).get(found.name))


@click.command()
@click.argument("job")
@yes_option
@verb("job.resume")
async def resume(run: Run, job: str, yes: bool) -> None:
    """Resume the suspended JOB: its pods start anew."""
    async with run.backend() as backend:
        found = await find_job(backend, job)
        if may_change("job.resume", found, backend):
            await confirmed(f"Resume {found.display_name}?", yes=yes)
        value_of(await run.job_operations(backend).resume(found))
        _print_changed(run, await backend.job_service(found.name).get(found.name))


# Else -1 would be an unknown option, and not a number that is too small.
@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("job")
@click.argument("workers", type=click.IntRange(0))
@yes_option
@verb("job.scale")
async def scale(run: Run, job: str, workers: int, yes: bool) -> None:
    """Give JOB so many WORKERS.

    A PyTorchJob needs an elasticPolicy for this, and keeps to its minReplicas and maxReplicas.
    """
    async with run.backend() as backend:
        found = await find_job(backend, job)
        if may_change("job.scale", found, backend) and not scale_problem(found, workers):
            to = f"to {formatting.pieces(workers, 'worker')} ({bounds_words(found)})"
            await confirmed(f"Scale {found.display_name} {to}?", yes=yes)
        value_of(await run.job_operations(backend).scale(found, workers))
        _print_changed(run, await backend.job_service(found.name).get(found.name))


def _print_changed(run: Run, job: Job) -> None:
    if run.json:
        print_json(job_json(job))
    else:
        out(f"{job.display_name}: {job.state.value.lower()}")


@click.command()
@click.argument("job")
@yes_option
@verb("job.rerun")
async def rerun(run: Run, job: str, yes: bool) -> None:
    """Run the pipeline JOB again, with what succeeded taken from the service's cache."""
    async with run.backend() as backend:
        found = await find_job(backend, job, ended=True)
        found = await backend.job_service(found.name).get(found.name)
        good, count = reused(found.tasks)
        await confirmed(f"Run {found.display_name} again ({good} of {count} tasks succeeded)?", yes=yes)
        made = value_of(await run.job_operations(backend).rerun(found))
    if run.json:
        print_json(job_json(made))
    else:
        out(f"created {made.name}")
