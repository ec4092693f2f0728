"""Implements `vxtui logs`."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import click

from tui.backends.interface import Backend, LogBatch, LogQuery, NotFound
from tui.domain.core.formatting import rfc3339
from tui.domain.core.job import Job, known_replicas
from tui.domain.core.log_entry import LogEntry, Severity
from tui.domain.core.replica import short_name
from tui.domain.core.time_input import parse_time
from tui.domain.log.pattern import Pattern, PatternError, compile_pattern
from tui.domain.log.plain_line import collapsed
from tui.kinds.registry import lost_runner
from tui.store.log.filters import LineFilter
from tui.store.log.text_input import STDIN
from tui.verbs.log.file import FilePrinter
from tui.verbs.output import SCHEMA, note, out, out_document
from tui.verbs.run import READS, Run, VerbFailure, find_job, runner_of, task_named, verb

_MARKS = {Severity.WARNING: "!", Severity.ERROR: "▲", Severity.CRITICAL: "▲", Severity.ALERT: "▲"}


@click.command()
@click.argument("job", required=False)
@click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path, allow_dash=True),
    callback=lambda _ctx, _param, path: STDIN if str(path) == "-" else path,
    metavar="PATH",
    help="Show this file instead of a job's log: on the screen, or as text without a terminal; - is stdin.",
)
@click.option(
    "--replica",
    "-r",
    "replicas",
    multiple=True,
    metavar="R",
    help="Only this replica, e.g. workerpool1-0; for a tuning job this trial, e.g. 7.",
)
@click.option(
    "--task", metavar="TASK", help="Print the log of this task of JOB, e.g. of a pipeline, by name or id."
)
@click.option(
    "--follow", "-f", is_flag=True, help="Follow the log until the job ends; a file, until interrupted."
)
@click.option("--since", metavar="T", help="10m, 2h or 3d ago, or a time such as 2026-11-21T09:00:00Z.")
@click.option(
    "--severity", metavar="S", default="default", help="Lowest severity, e.g. debug, info, warning or error."
)
@click.option("--grep", metavar="RE", help="Only lines that match this regular expression.")
@verb(READS)
async def logs(  # noqa: PLR0917 - one for each option
    run: Run,
    job: str | None,
    path: Path | None,
    replicas: tuple[str, ...],
    task: str | None,
    follow: bool,
    since: str | None,
    severity: str,
    grep: str | None,
) -> int | None:
    """Print the log of JOB, all replicas merged in time order."""
    pattern = _pattern(grep)
    try:
        lowest = Severity.parse(severity)
    except ValueError as error:
        raise VerbFailure(f"--severity: {error}.") from error
    begin = parse_since(since, datetime.now(UTC)) if since else None
    _check_source(job, path, of_a_job=bool(since or task))
    if path is not None:
        chosen = LineFilter(severity=lowest, pattern=pattern, replicas=frozenset(replicas))
        return await _show_file(run, path, chosen, follow=follow)
    assert job is not None
    async with run.backend() as backend:
        target = await find_job(backend, job)
        if task is not None:
            name = task_named(target, task, "logs").jobs[-1]
            target = await backend.job_service(name).get(name)
        known = [r.id for r in known_replicas(target)]
        if target.composite:
            known = [task.id for task in target.tasks if task.jobs]
        for replica in replicas:
            if replica not in known and replica != "service":
                raise VerbFailure(
                    f"{target.display_name} has no replica {replica}. The job's replicas: {', '.join(known)}."
                )
        runner = runner_of(target, "logs")
        created = target.create_time if runner == target.name else None
        query = LogQuery(runner, tuple(replicas), since=begin, created=created, tasks=target.composite)
        selects = LineFilter(severity=lowest, pattern=pattern).test()
        async for batch in _batches(backend, target, query, follow):
            if batch.note:
                note(batch.note)
            for gap in batch.gaps:
                note(f"┄┄ {gap.words} ┄┄")
            for entry in batch.entries:
                if selects(entry):
                    _print_entry(entry, run.json)
            sys.stdout.flush()
    return None


def _check_source(job: str | None, path: Path | None, *, of_a_job: bool) -> None:
    """Raise UsageError unless a job or a file is named. `of_a_job` is true if an option requires a job."""
    if (job is None) == (path is None):
        raise click.UsageError("Name a JOB, or a file with --file PATH.")
    if path is not None and of_a_job:
        raise click.UsageError("--since and --task need a JOB: lines of a file have no time and no task.")


def _print_entry(entry: LogEntry, as_json: bool) -> None:
    if as_json:
        out_document(_json(entry))
    else:
        out(_line(entry))


async def _show_file(run: Run, path: Path, line_filter: LineFilter, *, follow: bool) -> int:
    """Show a file on the screen. Print its lines with `--json` or without a terminal."""
    try:
        if not run.json and sys.stdout.isatty() and sys.stdin.isatty() and path != STDIN:
            from tui.file_viewer import view_file

            return await view_file(path, run.settings, line_filter)
        await FilePrinter(path, line_filter, as_json=run.json).run(follow=follow)
    except OSError as error:
        raise VerbFailure(f"--file {path}: {error.strerror or error}.") from error
    return 0


async def _batches(backend: Backend, job: Job, query: LogQuery, follow: bool) -> AsyncIterator[LogBatch]:
    if follow:
        try:
            async for batch in backend.logs.tail(query):
                yield batch
            return
        except NotFound:
            if job.logged_as == job.name:
                raise
        # A log outlives its job, but then it can't be followed.
        note(f"The log has ended: {lost_runner(job)}.")
    async for batch in backend.logs.read(query):
        yield batch


def _pattern(text: str | None) -> Pattern | None:
    try:
        return compile_pattern(text) if text is not None else None
    except PatternError as error:
        raise VerbFailure(f"--grep {text} can't be used: {error}.") from error


def parse_since(text: str, now: datetime) -> datetime:
    """Parse a time, or a duration before `now`; a time without a zone is in this machine's zone. Raises
    VerbFailure for any other text."""
    try:
        return parse_time(text, now=now, start=None)
    except ValueError as error:
        raise VerbFailure(f"--since {text}: {error}.") from error


def _json(entry: LogEntry) -> str:
    """Return one object per line, as documented in docs/JSON.md."""
    return json.dumps(
        {
            "schema": SCHEMA,
            "timestamp": _stamp(entry),
            "replica": entry.replica,
            "severity": entry.severity.name,
            "message": entry.message,
            "json": entry.json,
            "insert_id": entry.insert_id,
        },
        ensure_ascii=True,
    )


def _stamp(entry: LogEntry) -> str:
    """Return the entry's time to the nanosecond, which orders entries of the same microsecond."""
    return f"{(rfc3339(entry.timestamp) or '').removesuffix('Z')}{entry.nanos:03}Z"


def _line(entry: LogEntry) -> str:
    clock = entry.timestamp.astimezone().strftime("%H:%M:%S.%f")[:-3]
    short = short_name(entry.replica)
    return f"{clock} {short:<7} {_MARKS.get(entry.severity, ' ')} {collapsed(entry.message)}"
