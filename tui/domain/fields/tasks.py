"""The fields of a task, for the tasks' tab and `--json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tui.domain.core.formatting import figure, rfc3339
from tui.domain.core.task import Artifact, Task
from tui.domain.fields.cell import NONE, UNKNOWN, Cell, muted, optional, state_cell
from tui.domain.fields.field import Field, json_object
from tui.domain.masking import mask_text, mask_value, masked


def job_cell(task: Task) -> Cell:
    """Return a cell with the id of the job that runs a task."""
    return muted(task.job.rpartition("/")[2]) if task.job else NONE


def _words(words: Iterable[str]) -> Cell:
    return optional("  ".join(words) or None)


def _attempts(task: Task) -> Cell:
    return UNKNOWN if task.attempts is None else Cell(f"{task.attempts:,}")


def _artifacts(by_name: Mapping[str, Sequence[Artifact]]) -> dict[str, Any]:
    return {
        name: [
            {
                "uri": mask_text(artifact.uri),
                "type": artifact.type or None,
                "name": artifact.name or None,
                "metadata": masked(dict(artifact.metadata))[0],
            }
            for artifact in artifacts
        ]
        for name, artifacts in by_name.items()
    }


def _values(values: Mapping[str, object]) -> dict[str, object]:
    return {
        name: mask_value(name, value) if isinstance(value, str) else value for name, value in values.items()
    }


TASK_FIELDS: tuple[Field[Task], ...] = (
    Field("id", "TASK", 16, max_width=40,
        cell=lambda task: Cell(task.id, strong=task.state.active),
        json=lambda task: task.id, help="Id, unique within the job"),
    Field("name", json=lambda task: task.name or task.id, help="Name, or the id of a task without a name"),
    Field("parent", json=lambda task: task.parent or None, help="Id of the parent task"),
    Field("state", "STATE", 12, max_width=18,
        cell=lambda task: state_cell(task.state), json=lambda task: task.state.value,
        help="State, one of the states of a job"),
    Field("native_state", json=lambda task: task.native_state or None,
        help="State in the service's own terms"),
    Field("attempts", "ATTEMPTS", 8, max_width=8, rank=4, right=True,
        cell=_attempts, json=lambda task: task.attempts, help="Number of starts"),
    Field("failed_jobs", json=lambda task: list(task.failed_jobs), help="Jobs of earlier attempts"),
    Field("after", "AFTER", 8, max_width=30, rank=3,
        cell=lambda task: _words(task.depends_on),
        json=lambda task: list(task.depends_on), json_key="depends_on",
        help="Ids of the tasks that must end before its start"),
    Field("parameters", "PARAMETERS", 12, max_width=60, rank=2,
        cell=lambda task: _words(f"{name}={value}" for name, value in task.parameters.items()),
        json=lambda task: _values(task.parameters), help="Parameters by name"),
    Field("outputs", json=lambda task: _values(task.outputs), help="Outputs by name"),
    Field("input_artifacts", json=lambda task: _artifacts(task.input_artifacts),
        help="Lists of input artifacts, by their names in the task"),
    Field("output_artifacts", json=lambda task: _artifacts(task.output_artifacts),
        help="Lists of output artifacts, by their names in the task"),
    Field("metrics", "METRICS", 12, max_width=40, rank=1,
        cell=lambda task: _words(f"{name}={figure(value)}" for name, value in task.metrics.items()),
        json=lambda task: dict(task.metrics), help="Metrics by name"),
    Field("step", json=lambda task: task.step, help="Training step of the metrics"),
    Field("job", "JOB", 20, flex=True,
        cell=job_cell, json=lambda task: task.job or None, help="Name of the job that runs the task"),
    Field("start_time", json=lambda task: rfc3339(task.start_time), help="Time of the start"),
    Field("end_time", json=lambda task: rfc3339(task.end_time), help="Time of the end"),
    Field("reason", json=lambda task: mask_text(task.reason) or None, help="Reason of a failure"),
)  # fmt: skip


def task_json(task: Task) -> dict[str, Any]:
    """Return a task in the documented JSON format."""
    return json_object(TASK_FIELDS, task)
