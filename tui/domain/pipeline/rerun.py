"""A pipeline once more: what succeeded comes from the service's cache, the rest runs again."""

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
    """The PipelineJob (REST form) to create for one that the service reports: all tasks may use the cache."""
    made = {name: value for name, value in resource.items() if name in _KEPT and value}
    labels = {key: value for key, value in (made.pop("labels", None) or {}).items() if key != LAUNCH_LABEL}
    if labels:
        made["labels"] = labels
    spec = made.get("pipelineSpec")
    if isinstance(spec, Mapping):
        # The spec that was read is what ran; its template may have changed since.
        made.pop("templateUri", None)
        made["pipelineSpec"] = _cached(spec)
    return made


def _cached(value: Any) -> Any:
    """Return the JSON with caching on for every task, i.e. for every object with a `componentRef`."""
    if isinstance(value, Mapping):
        found = {name: _cached(inner) for name, inner in value.items()}
        if isinstance(found.get("componentRef"), Mapping):
            found["cachingOptions"] = {"enableCache": True}
        return found
    return [_cached(inner) for inner in value] if isinstance(value, list) else value


def reused(tasks: Iterable[Task]) -> tuple[int, int]:
    """How many of the tasks without parts succeeded, and how many there are."""
    leaves = [task for task in tasks if not task.group]
    good = [task for task in leaves if task.native_state in {"SUCCEEDED", "SKIPPED"}]
    return len(good), len(leaves)
