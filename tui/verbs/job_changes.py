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

    JOB is an id, a resource name or a display name; if several jobs share the name, the only running one.
    """
    async with run.backend() as backend:
        target = await find_job(backend, job)
        # Don't ask if the operation will be refused; the operation itself records the refusal.
        suspends = kind_of(target).cancel_suspends
        if may_change("job.cancel", target, backend):
            parent = None if yes else await parent_of(backend, target)
            goes_on = parent is None or parent.composite or not parent.state.active
            ends = "" if goes_on or parent is None else f", which ends the {titled(parent)}"
            ends = ", which suspends it: its pods end, but the job remains" if suspends else ends
            stakes = formatting.stakes(target, datetime.now(UTC))
            await confirmed(f"Cancel {target.display_name} ({stakes}){ends}?", yes=yes)
        value_of(await run.job_operations(backend).cancel(target))
        pause = 0.2 if backend.info.local else 2.0
        waited = 0.0
        while not no_wait and may_cancel(target) and waited < PATIENCE:
            await asyncio.sleep(pause)
            waited += pause
            target = await backend.job_service(target.name).get(target.name)
    if run.json:
        print_json(job_json(target))
    else:
        out(f"{target.display_name}: {'cancel requested' if no_wait else target.state.value.lower()}")
    if may_cancel(target) and not no_wait:
        note(
            f"The job has not ended within {PATIENCE:.0f} s; it is still being cancelled. "
            f"`vxtui describe {target.id}` shows its state."
        )


@click.command()
@click.argument("job")
@yes_option
@verb("job.delete")
async def delete(run: Run, job: str, yes: bool) -> None:
    """Delete JOB, which must have ended; if several jobs share the name, the only ended one.

    A job in a cluster may be deleted earlier: its pods end (propagation Foreground), then it is gone.
    """
    async with run.backend() as backend:
        target = await find_job(backend, job, ended=True)
        if may_change("job.delete", target, backend):
            parts = {name for task in target.tasks for name in task.jobs}
            stay = f", whose {pieces(len(parts), 'job stays', 'jobs stay')}" if parts else ""
            state = target.state.value.lower()
            await confirmed(f"Delete {target.display_name} ({target.id}, {state}){stay}?", yes=yes)
        cancel = f"vxtui cancel {target.id}" if backend.offers("jobs.cancel", target.kind) else ""
        fixes = {"FAILED_PRECONDITION": cancel or "Wait until it ends."}
        value_of(await run.job_operations(backend).delete(target), fixes)
    if run.json:
        print_json({"deleted": target.name})
    else:
        out(f"deleted {target.name}")


@click.command()
@click.argument("job")
@yes_option
@verb("job.suspend")
async def suspend(run: Run, job: str, yes: bool) -> None:
    """Suspend JOB in a cluster: its pods end; resuming starts it again."""
    async with run.backend() as backend:
        target = await find_job(backend, job)
        if may_change("job.suspend", target, backend):
            stakes = formatting.stakes(target, datetime.now(UTC))
            await confirmed(f"Suspend {target.display_name} ({stakes})?", yes=yes)
        value_of(await run.job_operations(backend).suspend(target))
        _print_changed(run, await backend.job_service(target.name).get(target.name))


@click.command()
@click.argument("job")
@yes_option
@verb("job.resume")
async def resume(run: Run, job: str, yes: bool) -> None:
    """Resume the suspended JOB: its pods start again."""
    async with run.backend() as backend:
        target = await find_job(backend, job)
        if may_change("job.resume", target, backend):
            await confirmed(f"Resume {target.display_name}?", yes=yes)
        value_of(await run.job_operations(backend).resume(target))
        _print_changed(run, await backend.job_service(target.name).get(target.name))


# Otherwise click would read -1 as an unknown option, not as a number that is too small.
@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("job")
@click.argument("workers", type=click.IntRange(0))
@yes_option
@verb("job.scale")
async def scale(run: Run, job: str, workers: int, yes: bool) -> None:
    """Scale JOB to this number of WORKERS.

    A PyTorchJob needs an elasticPolicy for this, and stays within its minReplicas and maxReplicas.
    """
    async with run.backend() as backend:
        target = await find_job(backend, job)
        if may_change("job.scale", target, backend) and not scale_problem(target, workers):
            to = f"to {formatting.pieces(workers, 'worker')} ({bounds_words(target)})"
            await confirmed(f"Scale {target.display_name} {to}?", yes=yes)
        value_of(await run.job_operations(backend).scale(target, workers))
        _print_changed(run, await backend.job_service(target.name).get(target.name))


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
    """Run the pipeline JOB again; tasks that succeeded are taken from the service's cache."""
    async with run.backend() as backend:
        target = await find_job(backend, job, ended=True)
        target = await backend.job_service(target.name).get(target.name)
        good, count = reused(target.tasks)
        await confirmed(f"Run {target.display_name} again ({good} of {count} tasks succeeded)?", yes=yes)
        created = value_of(await run.job_operations(backend).rerun(target))
    if run.json:
        print_json(job_json(created))
    else:
        out(f"created {created.name}")
