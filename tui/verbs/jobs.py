"""`vxtui jobs` and `vxtui describe`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import click

from tui.backends.interface import BackendError
from tui.domain import formatting
from tui.domain.job import Job
from tui.domain.states import JobState
from tui.verbs.output import job_json, note, out, print_json, table
from tui.verbs.run import READS, Run, find_job, verb


@click.command()
@verb(READS)
async def jobs(run: Run) -> int:
    """List jobs over all regions of the context, newest first."""
    found: list[Job] = []
    failed: list[BackendError] = []
    errors = []
    async with run.backend() as backend:
        async for page in backend.list_jobs():
            found += page.jobs
            if page.error is not None:
                failed.append(page.error)
                errors.append({"region": page.region, "code": page.error.code, "message": page.error.message})
        progress = await backend.progress.read([j for j in found if j.state is JobState.RUNNING])
    found = [replace(j, progress=progress.get(j.name, j.progress)) for j in found]
    found.sort(key=lambda j: (j.create_time is not None, j.create_time), reverse=True)
    if run.json:
        print_json({"jobs": [job_json(j) for j in found], "errors": errors})
    else:
        _print(found)
        if not found and not failed:
            note("No jobs here yet. `vxtui launch local-2node` trains on this machine in two minutes.")
        for error in failed:
            note(f"{error.message} {error.fix}".strip())
    return failed[0].exit_code if failed and not found else 0


def _print(found: list[Job]) -> None:
    now = datetime.now(UTC)
    rows = [
        [
            job.state.value.lower(), job.display_name, job.id, job.region, formatting.replicas(job),
            formatting.accelerators(job), "spot" if job.spot else job.strategy.lower(), _progress(job),
            formatting.age(job.age(now)), formatting.age(job.duration(now)),
        ]
        for job in found
    ]  # fmt: skip
    headers = ("STATE", "NAME", "ID", "REGION", "REPL", "ACCEL", "STRATEGY", "PROGRESS", "AGE", "RAN")
    table(headers, rows, right=(8, 9))


def _progress(job: Job) -> str:
    progress = job.progress
    if progress.step is None:
        return ""
    of = f"/{progress.total_steps}" if progress.total_steps else ""
    loss = f"  loss {progress.last_loss:.3f}" if progress.last_loss is not None else ""
    return f"{progress.step}{of}{loss}"


@click.command()
@click.argument("job")
@verb(READS)
async def describe(run: Run, job: str) -> None:
    """Show one job. JOB is an id, a full resource name or a unique display name."""
    async with run.backend() as backend:
        found = await find_job(backend, job)
        service = backend.job_service(found.name)
        found = await service.get(found.name)
        progress = (await backend.progress.read([found]))[found.name]
        spec = await service.spec(found.name)
    if run.json:
        print_json({**job_json(found, progress), "resource": spec})
        return
    now = datetime.now(UTC)
    out(f"{found.display_name}  {found.state.value.lower()}  ({found.native_state})")
    out(f"  {found.name}")
    out(
        f"  age {formatting.age(found.age(now))}, ran {formatting.age(found.duration(now))}, "
        f"{found.strategy.lower()}"
    )
    if progress.step is not None:
        out(f"  step {_progress(replace(found, progress=progress))}")
    if found.error:
        note(f"  error {found.error.code}: {found.error.message}")
    out("")
    rows = [
        [r.id, r.role, r.state.value.lower(), "" if r.exit_code is None else str(r.exit_code)]
        for r in found.replicas
    ]
    table(("REPLICA", "ROLE", "STATE", "EXIT"), rows, right=(3,))
