"""A compiled pipeline as the fields of a profile."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tui.domain.pipeline.parameters import inputs_of
from tui.domain.spec.values import literal

ROOT = "root"
_HELP = "The pipeline's root, gs://BUCKET/FOLDER: the tasks store their outputs below it"
_ROOT_REFERENCE = f"${{{ROOT}}}"


def is_compiled(names: Collection[str]) -> bool:
    """Return whether a file with these top-level fields is a compiled pipeline."""
    return "pipelineInfo" in names and "root" in names


def of_compiled(spec: Mapping[str, Any], name: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the profile fields that run a compiled pipeline, and notes. A launch requires the pipeline root
    if it has no default."""
    info = spec.get("pipelineInfo")
    about = info if isinstance(info, Mapping) else {}
    fields: dict[str, Any] = {"displayName": str(about.get("name") or name)}
    if about.get("description"):
        fields["description"] = str(about["description"])
    root, notes = spec.get("defaultPipelineRoot"), _asked_for(spec)
    if root:
        runtime = {"gcsOutputDirectory": str(root)}
        return {**fields, "pipelineJob": {"runtimeConfig": runtime, "pipelineSpec": dict(spec)}}, notes
    fields["parameters"] = {ROOT: {"help": _HELP}}
    runtime = {"gcsOutputDirectory": _ROOT_REFERENCE}
    fields["pipelineJob"] = {"runtimeConfig": runtime, "pipelineSpec": _literal(spec)}
    return fields, (
        f"the pipeline has no root: a launch requires one, --set {ROOT}=gs://BUCKET/FOLDER",
        *notes,
    )


def _asked_for(spec: Mapping[str, Any]) -> tuple[str, ...]:
    names = [name for name, declared in inputs_of(spec).items() if declared.required]
    sets = " ".join(f"--set {name}=VALUE" for name in names)
    return (f"a launch requires the parameters without a default: {sets}",) if names else ()


def _literal(value: Any) -> Any:
    """Return the JSON with its texts escaped, so that a profile with parameters sends them unchanged."""
    if isinstance(value, Mapping):
        return {key: _literal(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_literal(inner) for inner in value]
    return literal(value) if isinstance(value, str) else value
