"""The columns of a pipeline's tasks, for their tree on the screen and in `vxtui tasks`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from tui.domain.core.formatting import age
from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.domain.core.task import Task
from tui.domain.core.text import clip, plain
from tui.domain.fields.cell import STATES, UNKNOWN, Cell, Tone, muted, state_cell
from tui.domain.fields.field import Field
from tui.domain.fields.tasks import job_cell
from tui.domain.masking import mask_value
from tui.domain.pipeline.facts import CACHED
from tui.domain.pipeline.tree import Branch, timeline

BAR = 20
"""Width of the bar that shows the time of a task, in cells."""
LONGEST_VALUE = 400
LONGEST_OUTPUTS = 40
SKIPPED_WORDS = {CACHED: "cached", "NOT_TRIGGERED": "not triggered"}
"""The meaning of the service's states of a skipped task."""


class PipelineRow(NamedTuple):
    """A task in the tree of its pipeline, at a point in time."""

    branch: Branch
    branches: Mapping[str, Branch]
    job: Job
    now: datetime
    mark: str = ""
    """Mark of a task with parts: shown or hidden."""
    more: str = ""
    """Number of the task's hidden parts that have ended, as text."""


def task_state(task: Task) -> Cell:
    """Return a cell with glyph and word of a task's state."""
    word = SKIPPED_WORDS.get(task.native_state)
    long = (task.native_state or task.state.value).lower()
    if word is None:
        cell = state_cell(task.state)
        return Cell(cell.text, cell.tone, glyph=cell.glyph, long=long)
    # A cached task has outputs like a successful one.
    glyph, tone = STATES[JobState.SUCCEEDED if task.native_state == CACHED else task.state]
    return Cell(glyph, tone, more=(muted(f" {word}"),), long=long)


def task_names(branches: Mapping[str, Branch], ids: Iterable[str]) -> list[str]:
    """Return the display names of these tasks."""
    return [branches[id].task.name or id for id in ids if id in branches]


def value_text(name: str, value: object) -> str:
    """Return a parameter or output as text, without secrets."""
    return clip(str(mask_value(name, value if isinstance(value, str) else f"{value}")), LONGEST_VALUE)


def _name(row: PipelineRow) -> Cell:
    task, indent = row.branch.task, "  " * row.branch.depth
    name = Cell(task.name or task.id, strong=task.state.active and not row.branch.parts)
    return Cell(indent, more=(muted(row.mark), name, muted(row.more)))


def _bar(row: PipelineRow) -> Cell:
    begin = row.job.start_time or row.job.create_time
    if begin is None:
        return Cell()
    end = max(row.job.end_time or row.now, begin + timedelta(seconds=1))
    at, count = timeline(row.branch.task, begin, end, BAR, row.now)
    tones = {JobState.FAILED: Tone.BAD, JobState.RUNNING: Tone.GOOD}
    return Cell(" " * at, more=(Cell("━" * count, tones.get(row.branch.task.state, Tone.DONE)),))


def _outputs(row: PipelineRow) -> Cell:
    outputs = row.branch.task.outputs
    text = "  ".join(f"{name}={value_text(name, value)}" for name, value in outputs.items())
    return Cell(clip(plain(text.replace("\n", " ")), LONGEST_OUTPUTS)) if outputs else UNKNOWN


PIPELINE_FIELDS: tuple[Field[PipelineRow], ...] = (
    Field("name", "TASK", 20, max_width=60, whole=True, cell=_name),
    Field("state", "STATE", 13, max_width=16, rank=1, cell=lambda row: task_state(row.branch.task)),
    Field("duration", "RAN", 5, max_width=6, rank=2, right=True, whole=True,
        cell=lambda row: muted(age(row.branch.task.duration(row.now)))),
    Field("bar", "WHEN", BAR, max_width=BAR, rank=5, only="screen", cell=_bar),
    Field("after", "AFTER", 10, max_width=40, rank=4,
        cell=lambda row: muted(" ".join(task_names(row.branches, row.branch.task.depends_on)))),
    Field("outputs", "OUTPUT", 10, max_width=40, rank=3, only="screen", cell=_outputs),
    Field("job", "JOB", only="verb", cell=lambda row: job_cell(row.branch.task)),
    Field("reason", "", 4, rank=6, flex=True, optional=True,
        cell=lambda row: Cell(row.branch.task.reason, Tone.BAD)),
)  # fmt: skip
