"""Implements `vxtui tasks`."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from tui.config.paths import state_dir
from tui.domain.core.job import Job
from tui.domain.core.task import Task
from tui.domain.fields.pipeline_tasks import PIPELINE_FIELDS, PipelineRow
from tui.domain.fields.tasks import task_json
from tui.domain.fields.trials import TrialRow, trial_fields
from tui.domain.pipeline.tree import tree
from tui.domain.tuning.study import best, by_goal, study_of
from tui.kinds.registry import kind_of
from tui.store.jobs.costs import Costs
from tui.verbs.output import note, print_fields, print_json
from tui.verbs.run import READS, Run, find_job, verb


@click.command()
@click.argument("job")
@verb(READS)
async def tasks(run: Run, job: str) -> None:
    """List the jobs that JOB consists of, e.g. the trials of a tuning job, best first."""
    async with run.backend() as backend:
        target = await find_job(backend, job)
        target = await backend.job_service(target.name).get(target.name)
    study = study_of(target)
    ordered = by_goal(target.tasks, study) if study.goal else list(target.tasks)
    winner = best(target.tasks, study)
    if run.json:
        print_json(
            {
                "job": target.name,
                "best": winner.id if winner is not None else None,
                "tasks": [task_json(task) for task in ordered],
            }
        )
        return
    if not ordered:
        noun = kind_of(target).words.noun
        reason = "the service has created no tasks yet" if target.composite else f"a {noun} runs by itself"
        note(f"{target.display_name} has no tasks: {reason}.")
        return
    if study.goal:
        _print_trials(target, ordered, winner)
    else:
        _print_tree(target, ordered)


def _print_tree(job: Job, tasks: list[Task]) -> None:
    """Print each task below its parent, after the tasks that it waits for."""
    now, branches = datetime.now(UTC), tree(tasks)
    print_fields(PIPELINE_FIELDS, [PipelineRow(branch, branches, job, now) for branch in branches.values()])


def _print_trials(job: Job, trials: list[Task], winner: Task | None) -> None:
    now, costs = datetime.now(UTC), Costs(state_dir())
    costs.load()
    rows = [TrialRow(task, now, task is winner, costs.task_text(job, task, now)) for task in trials]
    print_fields(trial_fields(study_of(job)), rows)
