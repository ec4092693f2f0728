"""Read a CustomJob in REST format, in which any field may be missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def within(value: Any, *path: str) -> Any:
    """Return the value at `path` inside nested mappings, or None."""
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def whole(value: Any) -> int:
    """Return an integer of REST format, which writes 64 bits as text; 0 for a missing value."""
    try:
        return int(value or 0)
    except (TypeError, ValueError):
        return 0


def duration(value: Any) -> float | None:
    """Return the seconds of a duration such as `86400s`, or None."""
    try:
        return float(str(value).removesuffix("s")) if value else None
    except ValueError:
        return None


def machine_of(pool: Mapping[str, Any]) -> tuple[str, str, int]:
    """Return machine type, accelerator type ("" without an accelerator) and the number of accelerators of one
    machine."""
    spec = pool.get("machineSpec") or {}
    kind = str(spec.get("acceleratorType") or "")
    kind = "" if kind.endswith("_UNSPECIFIED") else kind
    return str(spec.get("machineType") or ""), kind, whole(spec.get("acceleratorCount"))


def task_of(pool: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the name of a pool's task field and its value, which are empty without a task."""
    for name in ("containerSpec", "pythonPackageSpec"):
        if pool.get(name):
            return name, pool[name]
    return "", {}


def trials_of(job: Mapping[str, Any]) -> tuple[int, int]:
    """Return the number of a job's runs, in total and in parallel, i.e. a tuning job's numbers of trials."""
    tuning = job.get("tuningJob") or {}
    trials = max(1, whole(tuning.get("maxTrialCount")))
    return trials, min(trials, max(1, whole(tuning.get("parallelTrialCount"))))


def whole_numbers(value: Any) -> Any:
    """Return the JSON with every integral float as an int: a google.protobuf.Value has only doubles."""
    if isinstance(value, Mapping):
        return {name: whole_numbers(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [whole_numbers(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def text_arguments(value: Any, field: str = "") -> Any:
    """Return the JSON with every number of an `args` list as text: Google's SDK sends numbers there."""
    if isinstance(value, Mapping):
        return {name: text_arguments(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [text_arguments(inner, field) for inner in value]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(whole_numbers(value)) if field == "args" and is_number else value
