"""The schema of each kind and of its types."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

from tui.domain.kubernetes.schema.language import Schema, SchemaTable, parse, replace_references

_FILES = {
    "v1": "core", "batch/v1": "batch", "coordination.k8s.io/v1": "leases",
    "scheduling.k8s.io/v1": "scheduling", "kubeflow.org/v1": "kubeflow_v1",
    "kubeflow.org/v2beta1": "kubeflow_v2beta1",
    "trainer.kubeflow.org/v1alpha1": "trainer", "jobset.x-k8s.io/v1alpha2": "jobset",
    "kueue.x-k8s.io/v1beta2": "kueue", "scheduling.x-k8s.io/v1alpha1": "coscheduling",
    "scheduling.volcano.sh/v1beta1": "volcano",
}  # fmt: skip
"""Name of the table for each apiVersion."""
_SHARED = ("pods", "core", "batch")
"""Tables whose types every other table may use."""
_BASE: dict[str, Any] = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}


@cache
def schema_of(api_version: str, kind: str) -> Schema | None:
    """Return the schema of a kind with references resolved, or `None` for a kind without a schema."""
    file = _FILES.get(api_version)
    if file is None or kind not in _table(file).kinds:
        return None
    resolved = _whole(file, kind)
    return {
        **resolved,
        "properties": {**_BASE, "metadata": _whole("core", "ObjectMeta"), **resolved["properties"]},
    }


@cache
def components(api_version: str) -> dict[str, Schema]:
    """Return the schemas of an apiVersion's kinds and their types, with OpenAPI references.

    A kind keeps its name; other types are prefixed with the table's name.
    """
    file = _FILES.get(api_version, "")
    if not file:
        return {}
    schemas: dict[str, Schema] = {}

    def reference(home: str, name: str) -> Schema:
        where = _home(home, name)
        full = f"{where}.{name}"
        if full not in schemas:
            schemas[full] = {}
            schemas[full] = replace_references(
                _table(where).types[name], lambda referenced: reference(where, referenced)
            )
        return {"$ref": f"#/components/schemas/{full}"}

    for kind in _table(file).kinds:
        resolved = replace_references(
            _table(file).types[kind], lambda referenced: reference(file, referenced)
        )
        meta = reference("core", "ObjectMeta")
        schemas[kind] = {**resolved, "properties": {**_BASE, "metadata": meta, **resolved["properties"]}}
    return schemas


@cache
def _table(file: str) -> SchemaTable:
    return parse(resources.files(__package__).joinpath("data", f"{file}.schema").read_text())


def _home(file: str, name: str) -> str:
    """Return the table that defines a type: its own table, or a shared one. Raises KeyError."""
    for where in (file, *_SHARED):
        if name in _table(where).types:
            return where
    raise KeyError(f"{file}: no type {name}")


@cache
def _whole(file: str, name: str) -> Schema:
    where = _home(file, name)
    return replace_references(_table(where).types[name], lambda referenced: _whole(where, referenced))
