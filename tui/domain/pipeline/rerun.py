"""Rerun of a pipeline: the service's cache has the results of succeeded tasks, and other tasks run again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tui.domain.core.job import LAUNCH_LABEL
from tui.domain.core.task import Task

_KEPT = (
    "displayName", "pipelineSpec", "runtimeConfig", "labels", "encryptionSpec", "serviceAccount", "network",
    "reservedIpRanges", "templateUri",
)  # fmt: skip


def rerun_resource(resource: Mapping[str, Any]) -> dict[str, Any]:
    """Return the PipelineJob (REST format) that reruns a job of the service, with caching for all tasks."""
    request = {name: value for name, value in resource.items() if name in _KEPT and value}
    labels = {key: value for key, value in (request.pop("labels", None) or {}).items() if key != LAUNCH_LABEL}
    if labels:
        request["labels"] = labels
    spec = request.get("pipelineSpec")
    if isinstance(spec, Mapping):
        # The job has the spec that ran; the template may have changed since.
        request.pop("templateUri", None)
        request["pipelineSpec"] = _cached(spec)
    return request


def _cached(value: Any) -> Any:
    """Return the JSON with caching for every task, i.e. for every object with a `componentRef`."""
    if isinstance(value, Mapping):
        copied = {name: _cached(inner) for name, inner in value.items()}
        if isinstance(copied.get("componentRef"), Mapping):
            copied["cachingOptions"] = {"enableCache": True}
        return copied
    return [_cached(inner) for inner in value] if isinstance(value, list) else value


def reused(tasks: Iterable[Task]) -> tuple[int, int]:
    """Return the number of leaf tasks that succeeded, and the number of all leaf tasks."""
    leaves = [task for task in tasks if not task.group]
    good = [task for task in leaves if task.native_state in {"SUCCEEDED", "SKIPPED"}]
    return len(good), len(leaves)
