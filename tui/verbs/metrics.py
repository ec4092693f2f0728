"""Implements `vxtui metrics`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime

import click

from tui.domain.core.formatting import NOT_MEASURED, age, figure, rfc3339
from tui.domain.core.metric import Series
from tui.verbs.output import note, print_json, table
from tui.verbs.run import READS, Run, find_job, naming_lost_runner, runner_of, task_named, verb


@click.command()
@click.argument("job")
@click.option("--task", metavar="TASK", help="Show the metrics of this task of JOB, by name or id.")
@verb(READS)
async def metrics(run: Run, job: str, task: str | None) -> None:
    """Show the utilization of each replica of JOB, and the metrics that were not measured."""
    async with run.backend() as backend:
        target, _ = await asyncio.gather(find_job(backend, job), backend.metrics.prepare())
        if task is not None:
            name = task_named(target, task, "metrics").jobs[-1]
            target = await backend.job_service(name).get(name)
        with naming_lost_runner(target):
            runner = runner_of(target, "metrics")
            reading = await backend.metrics.read(runner, job=target if runner == target.name else None)
    if run.json:
        print_json(
            {
                "series": [
                    {
                        "metric": s.metric,
                        "replica": s.replica,
                        "accelerator": s.accelerator,
                        "unit": s.unit,
                        "simulated": s.simulated,
                        "source": s.source or None,
                        "points": [[rfc3339(t), v] for t, v in s.points],
                    }
                    for s in reading.series
                ],
                "not_measured": [{"metric": m.metric, "reason": m.reason} for m in reading.not_measured],
            }
        )
        return
    now = datetime.now(UTC)
    rows = [
        [s.replica, s.metric, s.accelerator, _latest(s), age(now - s.latest[0]) if s.latest else NOT_MEASURED]
        for s in sorted(reading.series, key=lambda s: (s.replica, s.metric, s.accelerator))
    ]
    table(("REPLICA", "METRIC", "GPU", "LATEST", "AGE"), rows, right=(3, 4))
    for line in _sources(reading.series):
        note(line)
    for missing in reading.not_measured:
        note(f"· {missing.metric} was not measured: {missing.reason}")


def _sources(series: Iterable[Series]) -> list[str]:
    """Return notes on simulated metrics and on metrics from unusual sources."""
    by_source: dict[tuple[str, bool], set[str]] = {}
    for one_series in series:
        if one_series.source or one_series.simulated:
            by_source.setdefault((one_series.source, one_series.simulated), set()).add(one_series.metric)
    lines = []
    for (source, simulated), metrics in sorted(by_source.items()):
        words = [*["simulated"] * simulated, *[f"from {source}"] * bool(source)]
        lines.append(f"· {', '.join(sorted(metrics))}: {', '.join(words)}")
    return lines


def _latest(series: Series) -> str:
    if series.latest is None:
        return NOT_MEASURED
    value = series.latest[1]
    return f"{value:.0%}" if series.unit == "1" else f"{figure(value)}B/s"
