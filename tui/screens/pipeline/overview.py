"""The facts of a pipeline: the facts of every job, the progress of its tasks, and its parameters."""

from __future__ import annotations

import json

from textual.content import Content

from tui.domain.core.formatting import bar, pieces
from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.domain.core.text import clip, plain
from tui.domain.masking import mask_value
from tui.domain.pipeline.facts import CACHED
from tui.domain.pipeline.run import run_of
from tui.screens.job.overview import OverviewPane, Row, table
from tui.widgets.labelled_lines import Labelled

MOST_PARAMETERS = 30
LONGEST_VALUE = 120
BAR = 30


class PipelineOverviewPane(OverviewPane):
    """The Overview tab of a pipeline, with the progress of the tasks in place of training progress."""

    WORK_BESIDE = False

    def _training(self, job: Job) -> list[Labelled]:
        return table([*_tasks(job), *_given(job)])


def _tasks(job: Job) -> list[Row]:
    leaves = [task for task in job.tasks if not task.group]
    if not leaves:
        return [("tasks", Content.styled("none yet", "$text-muted"))]
    ended = sum(task.state.terminal for task in leaves)
    words = [f" {ended} of {pieces(len(leaves), 'task')}"]
    counts = {
        "running": sum(task.state is JobState.RUNNING for task in leaves),
        "failed": sum(task.state is JobState.FAILED for task in leaves),
        "from the cache": sum(task.native_state == CACHED for task in leaves),
        "not triggered": sum(task.native_state == "NOT_TRIGGERED" for task in leaves),
    }
    words += [f"{count} {word}" for word, count in counts.items() if count]
    colour = "$text-success" if job.state.active else "$text-muted"
    rows: list[Row] = [
        ("tasks", Content.assemble((bar(ended / len(leaves), BAR), colour), "   ".join(words)))
    ]
    broken = [task for task in leaves if task.state is JobState.FAILED]
    for at, task in enumerate(broken[:3]):
        text = f"{plain(task.name or task.id)}   {plain(task.reason)}"
        rows.append(("failed" if not at else "", Content.styled(text, "$text-error")))
    return rows


def _given(job: Job) -> list[Row]:
    run = run_of(job)
    rows: list[Row] = []
    for label, value in (
        ("pipeline", run.pipeline),
        ("", run.description),
        ("template", run.template),
        ("writes to", run.root),
        ("scheduled by", run.schedule.rpartition("/")[2]),
    ):
        rows += [(label, Content(plain(value)))] if value else []
    if run.pipeline:
        rows.append(("on a failure", Content(run.on_failure)))
    shown = list(run.parameters.items())[:MOST_PARAMETERS]
    for at, (name, parameter) in enumerate(shown):
        masked = mask_value(
            name, parameter if isinstance(parameter, str) else json.dumps(parameter, ensure_ascii=False)
        )
        text = f"{plain(name)}   {plain(clip(masked, LONGEST_VALUE))}"
        rows.append(("parameters" if not at else "", Content(text)))
    left = len(run.parameters) - len(shown)
    if left > 0:
        rows.append(("", Content.styled(f"and {pieces(left, 'parameter')} more", "$text-muted")))
    return rows
