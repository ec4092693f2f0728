"""All that is known of one task, line by line: each can be searched and copied."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tui.domain.masking import mask_text, mask_value
from tui.domain.states import JobState
from tui.domain.task import Artifact, Task

CACHED = "SKIPPED"
"""The service's state of a task whose outputs are those of an earlier run."""
# ROOT/PROJECT_NUMBER/PIPELINE_JOB/TASK_NUMBER is the folder of a task's files on Vertex.
_FOLDER = re.compile(r"/\d+/(?P<pipeline>[a-z0-9][a-z0-9-]{0,127})/[^/]+_-?\d+/")


@dataclass(frozen=True, slots=True)
class Fact:
    """One line: the part of the task that it belongs to, its name and its value, on one or several lines."""

    part: str
    name: str
    value: str
    job: str = ""
    """Name of the job that it leads to."""
    task: str = ""
    """Id of the task that it leads to."""

    @property
    def key(self) -> str:
        """Unique within a task."""
        return f"{self.part}/{self.name}/{self.job}/{self.task}"


def cached_from(task: Task, pipeline: str) -> str:
    """Name of the pipeline job whose run of this task made the outputs; "" if their URIs do not say so.

    `pipeline` is the name of the task's own one.
    """
    parent, _, own = pipeline.rpartition("/")
    if task.native_state != CACHED:
        return ""
    for artifacts in task.output_artifacts.values():
        for artifact in artifacts:
            found = _FOLDER.search(artifact.uri)
            if found is not None and found["pipeline"] != own:
                return f"{parent}/{found['pipeline']}"
    return ""


def attempts(task: Task) -> list[tuple[str, JobState]]:
    """The job of each attempt with its state, the oldest first."""
    return [(job, task.state if job == task.job else JobState.FAILED) for job in task.jobs]


def facts(task: Task, others: Mapping[str, Task], pipeline: str) -> list[Fact]:
    """The lines of a task but its state and times. `others` are the tasks of the pipeline of this name."""
    return [
        *_task(task, others, pipeline),
        *_attempts(task),
        *_values("input", task.parameters),
        *_artifacts("input", task.input_artifacts),
        *_values("output", {n: v for n, v in task.outputs.items() if n not in task.output_artifacts}),
        *_artifacts("output", task.output_artifacts),
        *_values("metric", task.metrics),
    ]


def _task(task: Task, others: Mapping[str, Task], pipeline: str) -> Iterator[Fact]:
    if task.reason:
        yield Fact("task", "error", mask_text(task.reason))
    origin = cached_from(task, pipeline)
    if origin:
        yield Fact("task", "cached from", origin.rpartition("/")[2], job=origin)
    around = others.get(task.parent)
    if around is not None:
        yield Fact("task", "part of", around.name or around.id, task=around.id)
    for id in task.depends_on:
        if id in others:
            yield Fact("task", "after", others[id].name or id, task=id)
    for other in others.values():
        if task.id in other.depends_on:
            yield Fact("task", "before", other.name or other.id, task=other.id)


def _attempts(task: Task) -> Iterator[Fact]:
    for number, (job, state) in enumerate(attempts(task), 1):
        yield Fact("attempt", f"{number} {state.value.lower()}", job, job=job)


def _values(part: str, values: Mapping[str, object]) -> Iterator[Fact]:
    for name, value in values.items():
        yield Fact(part, name, text_of(name, value))


def _artifacts(part: str, found: Mapping[str, Sequence[Artifact]]) -> Iterator[Fact]:
    for name, artifacts in found.items():
        for number, one in enumerate(artifacts):
            own = f"{name}[{number}]" if len(artifacts) > 1 else name
            yield Fact(part, own, mask_text(one.uri))
            if one.type:
                yield Fact(part, f"{own} type", one.type)
            if one.name and one.name != name:
                yield Fact(part, f"{own} name", mask_text(one.name))
            for key, value in one.metadata.items():
                yield Fact(part, f"{own}.{key}", text_of(key, value))


def text_of(name: str, value: object) -> str:
    """A value as text, secrets masked: JSON of what is neither text nor a number."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return str(mask_value(name, text))
