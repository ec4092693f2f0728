"""`vxtui tasks`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from tui.config.paths import state_dir
from tui.domain.core import formatting
from tui.domain.core.job import Job
from tui.domain.core.task import Task
from tui.domain.fields.tasks import task_json
from tui.domain.masking import mask_value
from tui.domain.pipeline.tree import tree
from tui.domain.tuning.study import best, by_goal, study_of
from tui.kinds.registry import kind_of
from tui.store.jobs.costs import Costs
from tui.verbs.output import note, print_json, table
from tui.verbs.run import READS, Run, find_job, verb

BEST = "*"


@click.command()
@click.argument("job")
@verb(READS)
async def tasks(run: Run, job: str) -> None:
    """List the parts of JOB that are jobs of their own: the trials of a tuning job, the best first."""
    async with run.backend() as backend:
        found = await find_job(backend, job)
        found = await backend.job_service(found.name).get(found.name)
    study = study_of(found)
    ordered = by_goal(found.tasks, study) if study.goal else list(found.tasks)
    winner = best(found.tasks, study)
    if run.json:
        print_json(
            {
                "job": found.name,
                "best": winner.id if winner is not None else None,
                "tasks": [task_json(task) for task in ordered],
            }
        )
        return
    if not ordered:
        noun = kind_of(found).words.noun
        reason = "the service has created none yet" if found.composite else f"a {noun} runs by itself"
        note(f"{found.display_name} has no tasks: {reason}.")
        return
    if study.goal:
        _print_trials(found, ordered, winner)
    else:
        _print_tree(ordered)


def _print_tree(found: list[Task]) -> None:
    """Each task below the one it is a part of, after those that it waits for."""
    now, branches = datetime.now(UTC), tree(found)
    rows = [
        [
            "  " * branch.depth + (branch.task.name or id),
            (branch.task.native_state or branch.task.state.value).lower(),
            formatting.age(branch.task.duration(now)),
            " ".join(branches[other].task.name for other in branch.task.depends_on if other in branches),
            branch.task.job.rpartition("/")[2],
            branch.task.reason,
        ]
        for id, branch in branches.items()
    ]
    table(["TASK", "STATE", "RAN", "AFTER", "JOB", ""], rows, right=(2,))


def _print_trials(job: Job, ordered: list[Task], winner: Task | None) -> None:
    now, costs = datetime.now(UTC), Costs(state_dir())
    costs.load()
    metrics = list(dict.fromkeys(name for task in ordered for name in task.metrics))
    parameters = list(dict.fromkeys(name for task in ordered for name in task.parameters))
    rows = [
        [
            f"{task.id}{BEST if winner is not None and task.id == winner.id else ''}",
            task.state.value.lower(),
            *(_number(task.metrics.get(name)) for name in metrics),
            *(mask_value(name, _number(task.parameters.get(name))) for name in parameters),
            _number(task.step),
            formatting.age(task.duration(now)),
            costs.task_text(job, task, now),
            task.job.rpartition("/")[2],
            task.reason,
        ]
        for task in ordered
    ]
    headers = ["TASK", "STATE", *metrics, *parameters, "STEP", "RAN", "COST", "JOB", ""]
    right = range(2, 5 + len(metrics) + len(parameters))
    table(headers, rows, right=tuple(right))


def _number(value: Any) -> str:
    if value is None:
        return formatting.NOT_MEASURED
    return f"{value:.6g}" if isinstance(value, float) else str(value)
