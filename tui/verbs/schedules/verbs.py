"""`vxtui schedules`: list, create, pause, resume and delete schedules of pipelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from tui.domain.core.formatting import age, rfc3339
from tui.domain.core.text import sentences
from tui.domain.document.source import ProblemSeverity
from tui.domain.fields.jobs import job_json
from tui.domain.fields.schedules import (
    SCHEDULE_FIELDS,
    ScheduleRow,
    local_time,
    next_time,
    schedule_json,
)
from tui.domain.profile.job_name import is_template
from tui.domain.schedules.rules import check_schedule
from tui.domain.schedules.schedule import NewSchedule, Schedule
from tui.domain.spec.display_name import name_problem
from tui.domain.spec.findings import Finding
from tui.domain.vertex.dry_run import price_words
from tui.session import now
from tui.verbs.dry_run import DryRun
from tui.verbs.launch import prepare
from tui.verbs.lists.group import ListGroup
from tui.verbs.lists.lookup import Noun, end, errors_json, one_of
from tui.verbs.output import note, print_fields, print_json, table
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

BODY = "pipelineJob"
SCHEDULE = Noun("schedule", "vxtui schedules")
UPCOMING = 3
"""Number of upcoming runs shown before a schedule is created."""


@click.group(cls=ListGroup)
def schedules() -> None:
    """Schedules: pipelines that run at the times of a cron expression.

    Without a command: list them, or show SCHEDULE, a display name, id or resource name.
    """


@schedules.command("list")
@click.argument("schedule", required=False)
@click.option("--runs", is_flag=True, help="With SCHEDULE: also list the schedule's newest runs.")
@verb(READS)
async def list_(run: Run, schedule: str | None, runs: bool) -> int:
    """List them, or show SCHEDULE."""
    if runs and schedule is None:
        raise VerbFailure("--runs needs a SCHEDULE.", code="USAGE")
    async with run.backend() as backend:
        results = await backend.schedules.list_all()
        shown = results.items if schedule is None else [one_of(backend, results, schedule, SCHEDULE)]
        jobs = list(await backend.schedules.runs(shown[0].name)) if runs else []
    if run.json:
        more = {"runs": [job_json(job) for job in jobs]} if runs else {}
        listed = [schedule_json(item, now()) for item in shown]
        print_json({"schedules": listed, "errors": errors_json(results), **more})
    else:
        print_fields(SCHEDULE_FIELDS, [ScheduleRow(item, now()) for item in shown])
        if not shown and not results.errors:
            note("No schedules here. `vxtui schedules create NAME --from PROFILE --cron CRON` creates one.")
        if runs:
            rows = [
                [job.id, job.state.value.lower(), age(job.age(now())), rfc3339(job.create_time)]
                for job in jobs
            ]
            table(
                ("RUN", "STATE", "AGE", "CREATED"), [[str(cell) for cell in row] for row in rows], right=(2,)
            )
    return end(run, results)


_TIME = click.DateTime(
    ["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M%z", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d"]
)


@schedules.command()
@click.argument("name")
@click.option("--from", "profile", required=True, metavar="PROFILE", help="Run the pipeline of this profile.")
@click.option(
    "--cron", required=True, metavar="CRON", help="Five fields, in UTC unless TZ=ZONE precedes them."
)
@click.option(
    "--start",
    type=_TIME,
    metavar="TIME",
    help="Start no run before this time. The default zone is this machine's.",
)
@click.option("--end", type=_TIME, metavar="TIME", help="Start no run after this time.")
@click.option("--max-runs", type=click.IntRange(1), metavar="N", help="Complete after this many runs.")
@click.option(
    "--max-active", type=click.IntRange(1), metavar="N", help="Number of runs that may be active at once."
)
@click.option("--queue", is_flag=True, help="Let runs above --max-active wait instead of skipping them.")
@set_option
@click.option(
    "--region", metavar="REGION", help="Create the schedule in this region instead of the profile's."
)
@yes_option
@verb("schedule.create")
async def create(  # noqa: PLR0917 - one for each option
    run: Run,
    name: str,
    profile: str,
    cron: str,
    start: datetime | None,
    end: datetime | None,
    max_runs: int | None,
    max_active: int | None,
    queue: bool,
    assignments: tuple[str, ...],
    region: str | None,
    yes: bool,
) -> int:
    """Create the schedule NAME, which runs PROFILE's pipeline at the times of CRON."""
    check_regions([region] if region else [], run.one_context)
    request = prepare(run, profile, assignments, region or "")
    if request.body != BODY:
        raise VerbFailure(
            f"{profile} has no pipeline: its body is {request.body}.",
            fix=f"A schedule must run a profile with {BODY}.",
            code="INVALID_PROFILE",
        )
    job = _run_of(request.resource, name)
    new = NewSchedule(name, cron, job, _utc(start), _utc(end), max_runs, max_active, queues=queue)
    _must_be_valid(check_schedule(new, now(), local=run.one_context.emulated))
    async with run.backend() as backend:
        place = request.region or backend.info.regions[0]
        first = ", ".join(map(local_time, new.upcoming(now(), UPCOMING)))
        words = Schedule("", name, place, "", "", cron).when
        _must_be_new(name, (await backend.schedules.list_all()).items)
        context = run.one_context
        price = price_words(DryRun(context.project, request).price, billed=context.billed)
        await confirmed(
            f"Create the schedule {name} in {place} ({words})? First runs: {first or 'none'}. Price "
            f"of each run: {price}.",
            yes=yes,
        )
        created = value_of(await run.schedule_operations(backend).create(place, new))
    _print_one(run, created)
    return 0


@schedules.command()
@click.argument("schedule")
@yes_option
@verb("schedule.pause")
async def pause(run: Run, schedule: str, yes: bool) -> int:
    """Stop starting runs of SCHEDULE; active runs continue."""
    async with run.backend() as backend:
        target = one_of(backend, await backend.schedules.list_all(), schedule, SCHEDULE)
        await confirmed(f"Pause {target.display_name} ({target.when})?", yes=yes)
        paused = value_of(await run.schedule_operations(backend).pause(target))
    _print_one(run, paused)
    return 0


@schedules.command()
@click.argument("schedule")
@click.option("--catch-up", is_flag=True, help="First start the runs that were due in the pause.")
@yes_option
@verb("schedule.resume")
async def resume(run: Run, schedule: str, catch_up: bool, yes: bool) -> int:
    """Start runs of the paused SCHEDULE again."""
    async with run.backend() as backend:
        target = one_of(backend, await backend.schedules.list_all(), schedule, SCHEDULE)
        missed = ", and start the runs that were due in the pause" if catch_up else ""
        await confirmed(f"Resume {target.display_name} ({target.when}){missed}?", yes=yes)
        resumed = value_of(await run.schedule_operations(backend).resume(target, catch_up=catch_up))
    _print_one(run, resumed)
    return 0


@schedules.command()
@click.argument("schedule")
@yes_option
@verb("schedule.delete")
async def delete(run: Run, schedule: str, yes: bool) -> int:
    """Delete SCHEDULE; its runs stay."""
    async with run.backend() as backend:
        target = one_of(backend, await backend.schedules.list_all(), schedule, SCHEDULE)
        await confirmed(f"Delete the schedule {target.display_name} ({target.when})?", yes=yes)
        value_of(await run.schedule_operations(backend).delete(target))
    if run.json:
        print_json({"deleted": target.name})
    else:
        note(f"Deleted {target.display_name}.")
    return 0


def _must_be_new(name: str, existing: Sequence[Schedule]) -> None:
    """Raise VerbFailure for an existing name, because verbs can't distinguish two schedules of one name."""
    other = next((item for item in existing if item.display_name == name), None)
    if other is not None:
        raise VerbFailure(
            f"The schedule {name} already exists: {other.name} ({other.when}).",
            fix=f"Choose another name, or `vxtui schedules delete {name}` first.",
            code="ALREADY_EXISTS",
        )


def _run_of(resource: Mapping[str, Any], schedule: str) -> dict[str, Any]:
    """Return the pipeline job of each run, named like the schedule, because the service fills in no
    placeholders."""
    name = str(resource.get("displayName", ""))
    if not name or is_template(name):
        problem = name_problem(schedule)
        if problem is not None:
            raise VerbFailure(f"{schedule}: {problem[0]}", fix=problem[1], code="USAGE")
        return {**resource, "displayName": schedule}
    return dict(resource)


def _must_be_valid(findings: Sequence[Finding]) -> None:
    """Print the warnings. Raise VerbFailure if there is an error."""
    bad = [finding for finding in findings if finding.severity is ProblemSeverity.ERROR]
    if bad:
        text = "\n".join(f"{_option(finding)}: {finding.sentence}" for finding in bad)
        raise VerbFailure(text, fix=bad[0].fix, code="INVALID_ARGUMENT")
    for finding in findings:
        note(f"{finding.severity.value}: {_option(finding)}: {sentences(finding.sentence, finding.fix)}")


_OPTIONS = {
    "displayName": "NAME", "cron": "--cron", "endTime": "--end", "maxRunCount": "--max-runs",
    "maxConcurrentActiveRunCount": "--max-active", "allowQueueing": "--queue",
}  # fmt: skip


def _option(finding: Finding) -> str:
    return _OPTIONS[str(finding.path[0])]


def _utc(moment: datetime | None) -> datetime | None:
    """Interpret a time without a zone in this machine's zone, and convert it to UTC."""
    return moment.astimezone(UTC) if moment is not None else None


def _print_one(run: Run, schedule: Schedule) -> None:
    if run.json:
        print_json({"schedule": schedule_json(schedule, now())})
    else:
        soon = f"; its next run is at {next_time(schedule)}" if next_time(schedule) else ""
        note(f"{schedule.display_name} is {schedule.state.lower()}{soon}.")
