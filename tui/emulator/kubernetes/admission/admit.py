"""What the API checks and completes in every object before it is stored."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tui.domain.kubernetes.schema.check import fill_defaults, problems
from tui.domain.kubernetes.schema.registry import schema_of
from tui.domain.kubernetes.schema.transitions import forbidden_changes
from tui.emulator.kubernetes.admission.built_in import built_in_causes, complete
from tui.emulator.kubernetes.errors import Cause, Forbidden, Invalid
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.resources import EVENTS, NAMESPACES, SERVICES, Resource

Obj = dict[str, Any]
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_NAME = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_IS_LABEL, _IS_SUBDOMAIN = re.compile(_LABEL), re.compile(_SUBDOMAIN)
_IS_LABEL_KEY = re.compile(rf"({_SUBDOMAIN}/)?{_LABEL_NAME}")
_IS_LABEL_VALUE = re.compile(rf"({_LABEL_NAME})?")
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    f"'{_SUBDOMAIN}')"
)
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    f"and end with an alphanumeric character (e.g. 'my-name', regex used for validation is '{_LABEL}')"
)


class Admission:
    """Called for each create and update of `objects`."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def __call__(self, resource: Resource, obj: Obj, old: Obj | None) -> None:
        """Raises Invalid, NotFound for a missing namespace, Forbidden for one that ends."""
        if old is None:
            self._check_namespace(resource, obj)
        if old is None or obj["metadata"] != old["metadata"]:
            causes = list(metadata_causes(resource, obj["metadata"], new=old is None))
        else:
            causes = []
        schema = schema_of(resource.api_version, resource.kind)
        if schema is not None:
            causes += _by_schema(obj, old, schema)
        if not causes and old is None:
            # After the check of types: what it completes has the right ones.
            complete(resource, obj)
        if not causes:
            causes += built_in_causes(resource, obj, old)
        if causes:
            raise Invalid.of(resource, str(obj["metadata"].get("name", "")), causes)

    def _check_namespace(self, resource: Resource, obj: Obj) -> None:
        if not resource.namespaced or NAMESPACES not in self._objects.resources:
            return
        name, namespace = obj["metadata"].get("name", ""), str(obj["metadata"]["namespace"])
        found = self._objects.get(NAMESPACES, "", namespace)
        if "deletionTimestamp" in found["metadata"] and resource is not EVENTS:
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            details = {"name": name, "group": resource.group, "kind": resource.plural, "causes": [cause]}
            raise Forbidden(f'{resource.qualified} "{name}" is forbidden: {why}', details=details)


def _by_schema(obj: Obj, old: Obj | None, schema: Mapping[str, Any]) -> list[Cause]:
    """Fill in the defaults, and check what has changed."""
    before = old or {}
    changed = {
        key: value
        for key, value in obj.items()
        if key not in {"apiVersion", "kind", "metadata"} and (old is None or before.get(key) != value)
    }
    if old is None or set(changed) - {"status"}:
        fill_defaults(obj, schema)
    properties = schema["properties"]
    found = [
        problem
        for key in changed
        if key in properties
        for problem in problems(obj[key], properties[key], (key,))
    ]
    if old is not None:
        found += forbidden_changes(obj.get("spec"), old.get("spec"), properties.get("spec") or {}, ("spec",))
    missing = [key for key in schema.get("required") or () if obj.get(key) is None]
    return [
        *(Cause(key, "Required value", "FieldValueRequired") for key in missing),
        *(Cause(one.field, one.message, one.reason) for one in found),
    ]


def metadata_causes(resource: Resource, meta: Obj, *, new: bool) -> Iterator[Cause]:
    """What is invalid in an object's metadata."""
    name = meta.get("name")
    if new:
        yield from _name_causes(resource, str(name or ""))
    labels = meta.get("labels") or {}
    yield from _label_causes(labels, "metadata.labels")
    annotations = meta.get("annotations") or {}
    if not isinstance(annotations, Mapping):
        yield Cause("metadata.annotations", "Invalid value: must be a map of texts")
        return
    for key, value in annotations.items():
        if not isinstance(value, str):
            yield Cause(
                "metadata.annotations", f"Invalid value: {value!r}: the value of {key} must be a text"
            )
        elif not _IS_LABEL_KEY.fullmatch(key.lower()):
            yield Cause("metadata.annotations", f'Invalid value: "{key}": must be a qualified name')
    finalizers = meta.get("finalizers")
    if finalizers is not None and not isinstance(finalizers, list):
        yield Cause("metadata.finalizers", "Invalid value: must be a list of names")


def _name_causes(resource: Resource, name: str) -> Iterator[Cause]:
    is_label = resource in {NAMESPACES, SERVICES}
    pattern, longest = (_IS_LABEL, 63) if is_label else (_IS_SUBDOMAIN, 253)
    if len(name) > longest:
        yield Cause("metadata.name", f'Invalid value: "{name}": must be no more than {longest} characters')
    if not pattern.fullmatch(name):
        rule = _LABEL_RULE if is_label else _SUBDOMAIN_RULE
        yield Cause("metadata.name", f'Invalid value: "{name}": {rule}')


def _label_causes(labels: Any, field: str) -> Iterator[Cause]:
    if not isinstance(labels, Mapping):
        yield Cause(field, "Invalid value: must be a map of texts")
        return
    for key, value in labels.items():
        prefix, _, own = str(key).rpartition("/")
        if not _IS_LABEL_KEY.fullmatch(str(key)) or len(own) > 63 or len(prefix) > 253:
            yield Cause(field, f'Invalid value: "{key}": name part must consist of alphanumeric characters, '
                        "'-', '_' or '.', and must start and end with an alphanumeric character")  # fmt: skip
        if not isinstance(value, str):
            yield Cause(field, f"Invalid value: {value!r}: the value of {key} must be a text")
        elif len(value) > 63:
            yield Cause(field, f'Invalid value: "{value}": must be no more than 63 characters')
        elif not _IS_LABEL_VALUE.fullmatch(value):
            yield Cause(field, f'Invalid value: "{value}": a valid label must be an empty string or consist '
                        "of alphanumeric characters, '-', '_' or '.', and must start and end with an "
                        "alphanumeric character")  # fmt: skip
