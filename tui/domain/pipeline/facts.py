"""All that is known of one task, line by line: each can be searched and copied."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.domain.core.task import Artifact, Task
from tui.domain.masking import mask_text, mask_value
from tui.domain.pipeline.run import run_of

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


def same_work(task: Task, job: Job, runs: Iterable[Job]) -> str:
    """Name of the newest earlier run of this pipeline in which the task ended with these inputs and outputs.

    For a cached task whose outputs name no run: the cache may hold those of another one with equal outputs.
    """
    if task.native_state != CACHED:
        return ""
    wanted = task.name, task.parameters, task.outputs
    pipeline, created = run_of(job).pipeline, job.created or 0.0
    earlier = [
        each for each in runs
        if each.name != job.name and (each.created or 0.0) < created and run_of(each).pipeline == pipeline
    ]  # fmt: skip
    for each in sorted(earlier, key=lambda run: run.created or 0.0, reverse=True):
        ended = [one for one in each.tasks if one.native_state == "SUCCEEDED"]
        if any((one.name, one.parameters, one.outputs) == wanted for one in ended):
            return each.name
    return ""


def attempts(task: Task) -> list[tuple[str, JobState]]:
    """The job of each attempt with its state, the oldest first."""
    return [(job, task.state if job == task.job else JobState.FAILED) for job in task.jobs]


def facts(task: Task, others: Mapping[str, Task], pipeline: str, origin: str = "") -> list[Fact]:
    """The lines of a task but its state and times. `others` are the tasks of the pipeline of this name.

    `origin` is the run that `same_work` finds; what the outputs themselves say counts more.
    """
    return [
        *_task(task, others, cached_from(task, pipeline), origin),
        *_attempts(task),
        *_values("input", task.parameters),
        *_artifacts("input", task.input_artifacts),
        *_values("output", {n: v for n, v in task.outputs.items() if n not in task.output_artifacts}),
        *_artifacts("output", task.output_artifacts),
        *_values("metric", task.metrics),
    ]


def _task(task: Task, others: Mapping[str, Task], said: str, found: str) -> Iterator[Fact]:
    if task.reason:
        yield Fact("task", "error", mask_text(task.reason))
    if said:
        yield Fact("task", "cached from", said.rpartition("/")[2], job=said)
    elif found:
        yield Fact("task", "cached, as in", found.rpartition("/")[2], job=found)
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
