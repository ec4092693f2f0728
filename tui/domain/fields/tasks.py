"""The fields of a task: the tasks' tab, `vxtui tasks` and `--json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tui.domain.core.formatting import rfc3339
from tui.domain.core.task import Artifact, Task
from tui.domain.fields.field import Field, json_object
from tui.domain.masking import mask_text, mask_value, masked

TASK_FIELDS: tuple[Field[Task], ...] = (
    Field("id", json=lambda task: task.id, help="Id, unique within the job"),
    Field("name", json=lambda task: task.name or task.id, help="Name, or the id of a task without one"),
    Field("parent", json=lambda task: task.parent or None, help="Id of the task that contains it"),
    Field("state", json=lambda task: task.state.value, help="State, as of a job"),
    Field("native_state", json=lambda task: task.native_state or None, help="The service's own state"),
    Field("job", json=lambda task: task.job or None, help="Name of the job that runs it"),
    Field("depends_on", json=lambda task: list(task.depends_on), help="Ids of the tasks that it waits for"),
    Field("parameters", json=lambda task: _values(task.parameters), help="Parameters by name"),
    Field("outputs", json=lambda task: _values(task.outputs), help="Outputs by name"),
    Field("input_artifacts", json=lambda task: _artifacts(task.input_artifacts),
        help="Lists of artifacts it reads, by their names in the task"),
    Field("output_artifacts", json=lambda task: _artifacts(task.output_artifacts),
        help="Lists of artifacts it writes, by their names in the task"),
    Field("metrics", json=lambda task: dict(task.metrics), help="Metrics by name"),
    Field("step", json=lambda task: task.step, help="Training step of the metrics"),
    Field("attempts", json=lambda task: task.attempts, help="Number of starts"),
    Field("failed_jobs", json=lambda task: list(task.failed_jobs), help="Jobs of earlier attempts"),
    Field("start_time", json=lambda task: rfc3339(task.start_time), help="Time of the start"),
    Field("end_time", json=lambda task: rfc3339(task.end_time), help="Time of the end"),
    Field("reason", json=lambda task: mask_text(task.reason) or None, help="Why it failed"),
)  # fmt: skip


def task_json(task: Task) -> dict[str, Any]:
    """A task in the documented shape."""
    return json_object(TASK_FIELDS, task)


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
