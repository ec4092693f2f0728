"""Completes and validates every object before it is stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tui.domain.kubernetes.schema.check import fill_defaults, forbidden_changes, problems
from tui.domain.kubernetes.schema.registry import schema_of
from tui.emulator.kubernetes.admission.built_in import built_in_causes, complete
from tui.emulator.kubernetes.admission.custom import has_rules, rule_causes
from tui.emulator.kubernetes.admission.names import (
    key_problem,
    label_problems,
    subdomain_problems,
    value_problem,
)
from tui.emulator.kubernetes.errors import FieldCause, Forbidden, Invalid
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.resources import EVENTS, NAMESPACES, SERVICES, ApiResource, Obj

_UNCHECKED = FieldCause(
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the "
    "existing errors to complete validation",
)
"""Cause that the API server appends if a definition has CEL rules that it did not evaluate."""
_BLOCKING = {
    "FieldValueRequired", "FieldValueTypeInvalid", "FieldValueTooLong", "FieldValueTooMany",
    "FieldValueNotSupported",
}  # fmt: skip
_STANDARD_FINALIZERS = {"kubernetes", "orphan", "foregroundDeletion"}


class Admission:
    """Checks each create and update of `objects`."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def __call__(self, resource: ApiResource, obj: Obj, old: Obj | None) -> None:
        """Complete and check an object. Raises Invalid for invalid fields, ApiNotFound if the namespace does
        not exist, and Forbidden if the namespace is being deleted."""
        if old is None:
            self._check_namespace(resource, obj)
        if old is None or obj["metadata"] != old["metadata"]:
            causes = list(metadata_causes(resource, obj["metadata"], new=old is None))
            causes += _late_finalizers(obj["metadata"], (old or {}).get("metadata") or {})
        else:
            causes = []
        schema = schema_of(resource.api_version, resource.kind)
        if schema is not None:
            causes += _by_schema(resource, obj, old, schema)
        if not causes and old is None:
            # Complete after the type check, so that the existing fields have valid types.
            complete(resource, obj)
        if not causes:
            causes += built_in_causes(resource, obj, old)
        if causes:
            raise Invalid.of(resource, str(obj["metadata"].get("name", "")), causes)

    def _check_namespace(self, resource: ApiResource, obj: Obj) -> None:
        if not resource.namespaced or NAMESPACES not in self._objects.resources:
            return
        name, namespace = obj["metadata"].get("name", ""), str(obj["metadata"]["namespace"])
        stored_namespace = self._objects.get(NAMESPACES, "", namespace)
        if "deletionTimestamp" in stored_namespace["metadata"] and resource is not EVENTS:
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            details = {"name": name, "group": resource.group, "kind": resource.plural, "causes": [cause]}
            raise Forbidden(f'{resource.qualified} "{name}" is forbidden: {why}', details=details)


def _by_schema(resource: ApiResource, obj: Obj, old: Obj | None, schema: Obj) -> list[FieldCause]:
    """Fill in the defaults and check the changed fields."""
    before = old or {}
    changed = {
        key: value
        for key, value in obj.items()
        if key not in {"apiVersion", "kind", "metadata"} and (old is None or before.get(key) != value)
    }
    if old is None or set(changed) - {"status"}:
        fill_defaults(obj, schema)
    properties = schema["properties"]
    violations = [
        problem
        for key in changed
        if key in properties
        for problem in problems(obj[key], properties[key], (key,))
        if resource.custom or problem.reason not in {"FieldValueDuplicate", "FieldValueRequired"}
    ]
    if old is not None:
        violations += forbidden_changes(
            obj.get("spec"), old.get("spec"), properties.get("spec") or {}, ("spec",)
        )
    # Go decodes a missing spec of a built-in type as an empty one.
    required = schema.get("required") or () if resource.custom else ()
    missing = [key for key in required if obj.get(key) is None]
    causes = [
        *(FieldCause(key, "Required value", "FieldValueRequired") for key in missing),
        *(FieldCause(problem.field, problem.message, problem.reason) for problem in violations),
    ]
    if resource.custom:
        causes += list(rule_causes(resource, obj)) if not causes else []
        # A cause of these kinds keeps the API server from evaluating the CEL rules.
        blocked = any(cause.reason in _BLOCKING for cause in causes)
        causes += [_UNCHECKED] if blocked and has_rules(schema) else []
    return causes


def metadata_causes(resource: ApiResource, meta: Obj, *, new: bool) -> Iterator[FieldCause]:
    """Yield the invalid fields of an object's metadata."""
    if new:
        yield from _name_causes(resource, meta)
    labels = meta.get("labels") or {}
    annotations = meta.get("annotations") or {}
    if isinstance(labels, dict):
        yield from label_causes(labels, "metadata.labels")
    else:
        yield FieldCause("metadata.labels", "Invalid value: must be a map of strings")
    if not isinstance(annotations, dict):
        yield FieldCause("metadata.annotations", "Invalid value: must be a map of strings")
        return
    for key, value in annotations.items():
        problem = "" if isinstance(value, str) else f"the value of {key} must be a string"
        problem = problem or key_problem(key.lower())
        if problem:
            yield FieldCause("metadata.annotations", f'Invalid value: "{key}": {problem}')
    yield from _owner_causes(meta.get("ownerReferences") or [])
    finalizers = meta.get("finalizers") or []
    if not isinstance(finalizers, list):
        yield FieldCause("metadata.finalizers", "Invalid value: must be a list of names")
        return
    for number, name in enumerate(finalizers if not resource.custom else []):
        if "/" not in str(name) and name not in _STANDARD_FINALIZERS:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            yield FieldCause(f"metadata.finalizers[{number}]", f'Invalid value: "{name}": {why}')


def _late_finalizers(meta: Obj, before: Obj) -> Iterator[FieldCause]:
    late = [name for name in meta.get("finalizers") or [] if name not in (before.get("finalizers") or [])]
    if late and "deletionTimestamp" in before:
        shown = ", ".join(f'"{name}"' for name in late)
        why = "no new finalizers can be added if the object is being deleted, found new finalizers"
        message = f"Forbidden: {why} []string{{{shown}}}"
        yield FieldCause("metadata.finalizers", message, "FieldValueForbidden")


def _name_causes(resource: ApiResource, meta: Obj) -> Iterator[FieldCause]:
    of = label_problems if resource in {NAMESPACES, SERVICES} else subdomain_problems
    name, prefix = str(meta.get("name") or ""), str(meta.get("generateName") or "")
    # The generated suffix may follow a trailing dash.
    for problem in of(f"{prefix.removesuffix('-')}a") if prefix else []:
        yield FieldCause("metadata.generateName", f'Invalid value: "{prefix}": {problem}')
    for problem in of(name):
        yield FieldCause("metadata.name", f'Invalid value: "{name}": {problem}')


def label_causes(labels: Obj, field: str) -> Iterator[FieldCause]:
    """Yield the invalid entries of labels or of a label selector."""
    for key, value in labels.items():
        for shown, problem in (
            (key, key_problem(str(key))),
            (
                value,
                value_problem(value) if isinstance(value, str) else f"the value of {key} must be a string",
            ),
        ):
            if problem:
                yield FieldCause(field, f'Invalid value: "{shown}": {problem}')


def _owner_causes(owners: Any) -> Iterator[FieldCause]:
    for owner in owners if isinstance(owners, list) else []:
        for key, why in (
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ):
            if not owner.get(key):
                yield FieldCause(f"metadata.ownerReferences.{key}", f'Invalid value: "": {why}')
