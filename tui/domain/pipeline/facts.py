"""The facts about one task, one per line, so that the user can search and copy them."""

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
"""The service's state of a task whose outputs come from an earlier run."""
# A task's folder on Vertex: ROOT/PROJECT_NUMBER/PIPELINE_JOB/TASK_NUMBER.
_FOLDER = re.compile(r"/\d+/(?P<pipeline>[a-z0-9][a-z0-9-]{0,127})/[^/]+_-?\d+/")


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact: its section, its name and its value, which may have several lines."""

    part: str
    name: str
    value: str
    job: str = ""
    """Name of the job that the fact links to."""
    task: str = ""
    """Id of the task that the fact links to."""

    @property
    def key(self) -> str:
        """The fact's key, unique within a task."""
        return f"{self.part}/{self.name}/{self.job}/{self.task}"


def cached_from(task: Task, pipeline: str) -> str:
    """Return the name of the pipeline job that created the outputs of a cached task; "" if their URIs do not
    contain it. `pipeline` is the name of the task's own pipeline job."""
    parent, _, own = pipeline.rpartition("/")
    if task.native_state != CACHED:
        return ""
    for artifacts in task.output_artifacts.values():
        for artifact in artifacts:
            folder = _FOLDER.search(artifact.uri)
            if folder is not None and folder["pipeline"] != own:
                return f"{parent}/{folder['pipeline']}"
    return ""


def same_work(task: Task, job: Job, runs: Iterable[Job]) -> str:
    """Return the name of the newest earlier run of this pipeline in which the task had the same inputs and
    outputs. Use this function for a cached task whose outputs name no run; the cache may return equal outputs
    of another run."""
    if task.native_state != CACHED:
        return ""
    signature = task.name, task.parameters, task.outputs
    pipeline, created = run_of(job).pipeline, job.created or 0.0
    earlier = [
        run for run in runs
        if run.name != job.name and (run.created or 0.0) < created and run_of(run).pipeline == pipeline
    ]  # fmt: skip
    for candidate in sorted(earlier, key=lambda run: run.created or 0.0, reverse=True):
        ended = [other for other in candidate.tasks if other.native_state == "SUCCEEDED"]
        if any((other.name, other.parameters, other.outputs) == signature for other in ended):
            return candidate.name
    return ""


def attempts(task: Task) -> list[tuple[str, JobState]]:
    """Return the job of each attempt with its state, the oldest first."""
    return [(job, task.state if job == task.job else JobState.FAILED) for job in task.jobs]


def facts(task: Task, others: Mapping[str, Task], pipeline: str, origin: str = "") -> list[Fact]:
    """Return the facts of a task except its state and times. `others` are the tasks of the pipeline job
    `pipeline`. `origin` is the run that `same_work` returned; a run that the outputs name has precedence."""
    return [
        *_task(task, others, cached_from(task, pipeline), origin),
        *_attempts(task),
        *_values("input", task.parameters),
        *_artifacts("input", task.input_artifacts),
        *_values("output", {n: v for n, v in task.outputs.items() if n not in task.output_artifacts}),
        *_artifacts("output", task.output_artifacts),
        *_values("metric", task.metrics),
    ]


def _task(task: Task, others: Mapping[str, Task], own_origin: str, origin: str) -> Iterator[Fact]:
    if task.reason:
        yield Fact("task", "error", mask_text(task.reason))
    if own_origin:
        yield Fact("task", "cached from", own_origin.rpartition("/")[2], job=own_origin)
    elif origin:
        yield Fact("task", "cached, as in", origin.rpartition("/")[2], job=origin)
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


def _artifacts(part: str, artifacts_by_name: Mapping[str, Sequence[Artifact]]) -> Iterator[Fact]:
    for name, artifacts in artifacts_by_name.items():
        for number, artifact in enumerate(artifacts):
            own = f"{name}[{number}]" if len(artifacts) > 1 else name
            yield Fact(part, own, mask_text(artifact.uri))
            if artifact.type:
                yield Fact(part, f"{own} type", artifact.type)
            if artifact.name and artifact.name != name:
                yield Fact(part, f"{own} name", mask_text(artifact.name))
            for key, value in artifact.metadata.items():
                yield Fact(part, f"{own}.{key}", text_of(key, value))


def text_of(name: str, value: object) -> str:
    """Return a value as text, with masked secrets; JSON unless it is text or a number."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return str(mask_value(name, text))
