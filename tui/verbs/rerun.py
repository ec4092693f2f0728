"""`vxtui rerun`."""

from __future__ import annotations

import click

from tui.domain.pipeline.rerun import reused
from tui.verbs.output import job_json, out, print_json
from tui.verbs.run import Run, confirmed, find_job, value_of, verb


@click.command()
@click.argument("job")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
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
