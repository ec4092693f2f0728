"""Label and field selectors."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tui.emulator.kubernetes.errors import BadRequest
from tui.emulator.kubernetes.resources import EVENTS, JOBS, NAMESPACES, NODES, PODS, Resource

Obj = dict[str, Any]
Matches = Callable[[Obj], bool]

_FIELDS = {
    PODS: (
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
        "spec.hostNetwork", "status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName",
    ),
    EVENTS: (
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
        "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
        "reason", "reportingComponent", "source", "type",
    ),
    NODES: ("spec.unschedulable",),
    NAMESPACES: ("status.phase",),
    JOBS: ("status.successful",),
}  # fmt: skip
"""Fields that a selector can name, beside `metadata.name` and `metadata.namespace`."""

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?"
_KEY = rf"(?:{_NAME}/)?{_NAME}"
_SET = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)")
_EQUAL = re.compile(rf"({_KEY})\s*(==|=|!=)\s*({_NAME})?")
_EXISTS = re.compile(rf"(!?)\s*({_KEY})")
_FIELD = re.compile(r"([A-Za-z0-9_.\[\]]+)(==|=|!=)(.*)")


@dataclass(frozen=True, slots=True)
class _Requirement:
    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def holds(self, value: str | None) -> bool:
        if self.operator == "in":
            return value is not None and value in self.values
        if self.operator == "notin":
            return value is None or value not in self.values
        return (value is not None) == (self.operator == "exists")


def parse_labels(text: str) -> Matches | None:
    """The filter of a label selector; `None` where it selects everything.

    Raises:
        BadRequest: for a text that is no selector.
    """
    requirements = [_label_requirement(part) for part in _split(text)]
    if not requirements:
        return None

    def matches(obj: Obj) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(one.holds(labels.get(one.key)) for one in requirements)

    return matches


def parse_fields(text: str, resource: Resource) -> Matches | None:
    """The filter of a field selector; `None` where it selects everything.

    Raises:
        BadRequest: for a text that is no selector, or a field that the type does not offer.
    """
    requirements = []
    for part in filter(None, text.split(",")):
        found = _FIELD.fullmatch(part.strip())
        if found is None:
            raise BadRequest(f"invalid field selector: {part!r}; can't understand it")
        path, operator, value = found.groups()
        if path not in {"metadata.name", "metadata.namespace", *_FIELDS.get(resource, ())}:
            raise BadRequest(f"field label not supported: {path}")
        requirements.append((path.split("."), operator != "!=", value))
    if not requirements:
        return None
    return lambda obj: all((_text(obj, path) == value) is same for path, same, value in requirements)


def both(first: Matches | None, second: Matches | None) -> Matches | None:
    """The filter of what both select."""
    if first is None or second is None:
        return first or second
    return lambda obj: first(obj) and second(obj)


def _label_requirement(text: str) -> _Requirement:
    if found := _SET.fullmatch(text):
        key, operator, values = found.groups()
        return _Requirement(key, operator, frozenset(value.strip() for value in values.split(",")))
    if found := _EQUAL.fullmatch(text):
        key, operator, value = found.groups()
        return _Requirement(key, "notin" if operator == "!=" else "in", frozenset([value or ""]))
    if found := _EXISTS.fullmatch(text):
        return _Requirement(found[2], "absent" if found[1] else "exists")
    raise BadRequest(f"unable to parse requirement: {text!r} is no requirement of a label selector")


def _split(text: str) -> list[str]:
    """The requirements: what commas outside parentheses separate."""
    parts = re.split(r",(?![^(]*\))", text)
    return [part.strip() for part in parts if part.strip()]


def _text(obj: Obj, path: list[str]) -> str:
    value: Any = obj
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, dict):
        value = value.get("component")
    if value is True or value is False:
        return "true" if value else "false"
    return "" if value is None else str(value)
